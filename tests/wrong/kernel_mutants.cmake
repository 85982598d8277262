# Classic mistakes in kernels, one by one. The first changes nothing and must pass.
#
# FAULT is what the emulator must call the mistake, no more and no less: where it is one of memory or
# of barriers, the numbers may well come out right in the emulator's order of threads.
set(race "race on shared memory")
set(unwritten "read of shared memory that nothing wrote")
set(beyond "global access out of bounds")

fa_kernel_mutant(unchanged STAGE 4 CAUSE "none: a copy of the stage"
  FIND "using namespace fa;" REPLACE "using namespace fa;")

# --- barriers ---
fa_kernel_mutant(no_barrier_before STAGE 4 FAULT "${race}"
  CAUSE "no barrier before the tiles of K and V are overwritten"
  FIND "__syncthreads();  // nobody needs the tiles before any more" REPLACE "")
fa_kernel_mutant(no_barrier_after STAGE 4 FAULT "${race}"
  CAUSE "no barrier after the tiles of K and V are loaded"
  FIND "__syncthreads();  // everybody's part is there" REPLACE "")
fa_kernel_mutant(no_syncwarp STAGE 4 FAULT "${race}" CAUSE "no __syncwarp before P is read"
  FIND "__syncwarp();" REPLACE "")
fa_kernel_mutant(early_exit STAGE 4 FAULT "barrier not reached by all and ${unwritten}"
  CAUSE "threads without a query leave before the barriers"
  FIND "  //# region load_q" REPLACE "  if (i0 + ty >= i1) return;\n  //# region load_q")
fa_kernel_mutant(barrier_in_branch STAGE 4 FAULT "barrier not reached by all"
  CAUSE "a barrier that only one warp reaches"
  FIND "__syncwarp();" REPLACE "__syncwarp();\n    if (ty < 4) __syncthreads();")

# --- shared memory ---
fa_kernel_mutant(p_added STAGE 4 FAULT "${unwritten}"
  CAUSE "P is added to what shared memory holds, not stored"
  FIND "sP[ty + a * apart][tx + c * kAcross] = s_tile[a][c];"
  REPLACE "sP[ty + a * apart][tx + c * kAcross] += s_tile[a][c];")
fa_kernel_mutant(columns_not_zeroed STAGE 4 FAULT "${unwritten}"
  CAUSE "padding is not zeroed: columns beyond d and rows beyond the last keep what was there"
  FIND "tile[i][x] = first + i < last && x < M.cols ? M[first + i][x] : 0.0f;"
  REPLACE "if (first + i < last && x < M.cols) tile[i][x] = M[first + i][x];")
fa_kernel_mutant(rows_not_zeroed STAGE 4 FAULT "${unwritten}"
  CAUSE "padding is not zeroed: rows beyond the last keep what was there"
  FIND "tile[i][x] = first + i < last && x < M.cols ? M[first + i][x] : 0.0f;"
  REPLACE "if (first + i < last) tile[i][x] = x < M.cols ? M[first + i][x] : 0.0f;")
fa_kernel_mutant(one_column_more STAGE 4 FAULT "${unwritten}"
  CAUSE "the product Q K^T runs over the padding column of shared memory"
  FIND "for (int x = 0; x < D; ++x) {" REPLACE "for (int x = 0; x <= D; ++x) {")
fa_kernel_mutant(tile_forgotten STAGE 4 FAULT "shared access out of bounds"
  CAUSE "the shared memory asked for lacks the tile of V"
  FIND "2 * tile_bytes<float, D + 1>(Bc)" REPLACE "tile_bytes<float, D + 1>(Bc)")

# --- global memory ---
fa_kernel_mutant(padding_read STAGE 4 FAULT "${beyond}"
  CAUSE "rows beyond the last key are read instead of zeroed"
  FIND "first + i < last && x < M.cols ?" REPLACE "x < M.cols ?")
fa_kernel_mutant(columns_read STAGE 4 FAULT "${beyond}" CAUSE "columns beyond d are read"
  FIND "first + i < last && x < M.cols ?" REPLACE "first + i < last ?")
fa_kernel_mutant(keys_one_more STAGE 4 FAULT "${beyond}" CAUSE "the tail of the keys has one row too many"
  FIND "j1 = min(j0 + Bc, keys.last)" REPLACE "j1 = min(j0 + Bc, keys.last + 1)")
fa_kernel_mutant(queries_one_more STAGE 4 FAULT "${beyond}"
  CAUSE "the tail of the queries has one row too many"
  FIND "i1 = min(i0 + Br, Q.N)" REPLACE "i1 = min(i0 + Br, Q.N + 1)")
fa_kernel_mutant(rows_stored STAGE 4 FAULT "${beyond}"
  CAUSE "rows of O beyond the last query are stored"
  FIND "if (i >= i1) continue;" REPLACE "")
fa_kernel_mutant(columns_stored STAGE 4 FAULT "${beyond}"
  CAUSE "columns of O beyond d are stored"
  FIND "if (tx + x * kAcross < O.d)" REPLACE "if (tx + x * kAcross < D)")
fa_kernel_mutant(head_not_mapped STAGE 4 FAULT "${beyond}" CAUSE "query heads read the KV head of their own number"
  FIND "gK = K.head(b, h / (Q.H / K.H)), gV = V.head(b, h / (Q.H / K.H))"
  REPLACE "gK = K.head(b, h), gV = V.head(b, h)")

# --- which rows a block and a thread have ---
fa_kernel_mutant(keys_one_fewer STAGE 4 CAUSE "the tail of the keys lacks its last row"
  FIND "j1 = min(j0 + Bc, keys.last)" REPLACE "j1 = min(j0 + Bc, keys.last - 1)")
fa_kernel_mutant(queries_one_fewer STAGE 4 CAUSE "the tail of the queries lacks its last row"
  FIND "i1 = min(i0 + Br, Q.N)" REPLACE "i1 = min(i0 + Br, Q.N - 1)")
fa_kernel_mutant(last_tile_skipped STAGE 4 CAUSE "a last tile of keys that isn't full is skipped"
  FIND "j0 < keys.last; j0 += Bc" REPLACE "j0 + Bc <= keys.last; j0 += Bc")
fa_kernel_mutant(heads_in_turn STAGE 4 CAUSE "query heads take the KV heads in turn (tile) instead of in groups (repeat)"
  FIND "gK = K.head(b, h / (Q.H / K.H)), gV = V.head(b, h / (Q.H / K.H))"
  REPLACE "gK = K.head(b, h % K.H), gV = V.head(b, h % K.H)")
fa_kernel_mutant(one_kv_head STAGE 4 CAUSE "all query heads read KV head 0"
  FIND "gK = K.head(b, h / (Q.H / K.H)), gV = V.head(b, h / (Q.H / K.H))"
  REPLACE "gK = K.head(b, 0), gV = V.head(b, 0)")
fa_kernel_mutant(v_of_other_head STAGE 4 CAUSE "V is read with another head map than K"
  FIND "gV = V.head(b, h / (Q.H / K.H))" REPLACE "gV = V.head(b, h % K.H)")
fa_kernel_mutant(first_batch STAGE 4 CAUSE "K and V are those of the first batch item"
  FIND "gK = K.head(b, h / (Q.H / K.H)), gV = V.head(b, h / (Q.H / K.H))"
  REPLACE "gK = K.head(0, h / (Q.H / K.H)), gV = V.head(0, h / (Q.H / K.H))")
fa_kernel_mutant(k_and_v_swapped STAGE 4 CAUSE "K and V are swapped"
  FIND "load_tile<Bc, D>(sK, gK, j0, j1);" REPLACE "load_tile<Bc, D>(sK, gV, j0, j1);"
  FIND2 "load_tile<Bc, D>(sV, gV, j0, j1);" REPLACE2 "load_tile<Bc, D>(sV, gK, j0, j1);")

# --- the mask ---
fa_kernel_mutant(mask_one_more STAGE 4 CAUSE "the mask is one query late: a causal mask shows j <= i + 1"
  FIND "mask.visible(i0 + ty + a * apart, " REPLACE "mask.visible(i0 + ty + a * apart + 1, ")
fa_kernel_mutant(mask_one_fewer STAGE 4 CAUSE "the mask is one query early: a causal mask shows j < i"
  FIND "mask.visible(i0 + ty + a * apart, " REPLACE "mask.visible(i0 + ty + a * apart - 1, ")
fa_kernel_mutant(window_left_wide STAGE 4 CAUSE "the window reaches one key too far to the left"
  FIND "  const Index tiles = " REPLACE "  if (mask.left >= 0) ++mask.left;\n  const Index tiles = ")
fa_kernel_mutant(window_right_narrow STAGE 4 CAUSE "the window's right bound is taken as exclusive"
  FIND "  const Index tiles = " REPLACE "  if (mask.right > 0) --mask.right;\n  const Index tiles = ")
fa_kernel_mutant(diagonal_top_left STAGE 4 CAUSE "the diagonal is aligned top-left where Nq and Nkv differ"
  FIND "  const Index tiles = " REPLACE "  mask.diagonal = 0;\n  const Index tiles = ")
fa_kernel_mutant(all_visible_last STAGE 4 CAUSE "a tile that some queries see in part takes no mask test"
  FIND "j0 + Bc <= keys_of_all.last" REPLACE "j0 < keys_of_all.last")
fa_kernel_mutant(all_visible_first STAGE 4 CAUSE "the left end of a window isn't asked for before the mask test is left out"
  FIND "keys_of_all.first <= j0 && " REPLACE "")
fa_kernel_mutant(hidden_score_0 STAGE 4 CAUSE "a hidden score is 0 instead of -inf"
  FIND "s_i[c] = -INFINITY;" REPLACE "s_i[c] = 0;")
fa_kernel_mutant(empty_row STAGE 4 CAUSE "a query that sees no key divides by l = 0"
  FIND "mask.keys(i).empty() ? 1 : l" REPLACE "l")

# --- the recurrence ---
fa_kernel_mutant(o_not_rescaled STAGE 4 CAUSE "O is not rescaled when the maximum moves"
  FIND "o_i[x] *= alpha;" REPLACE "{}")
fa_kernel_mutant(l_not_rescaled STAGE 4 CAUSE "l is not rescaled when the maximum moves"
  FIND "l *= alpha;" REPLACE "")
fa_kernel_mutant(rescale_inverted STAGE 4 CAUSE "the rescale is inverted: exp(m - m_old)"
  FIND "exp_minus(m_old, m)" REPLACE "(m_old == -INFINITY ? 0.0f : expf(m - m_old))")
fa_kernel_mutant(m_not_carried STAGE 4 CAUSE "m is the tile's maximum instead of the running maximum"
  FIND "const float m_old = m;" REPLACE "const float m_old = m;\n      m = -INFINITY;")
fa_kernel_mutant(m_starts_at_0 STAGE 4 CAUSE "m starts at 0 instead of -inf"
  FIND "m_rows[a] = -INFINITY, " REPLACE "m_rows[a] = 0, ")
fa_kernel_mutant(no_maximum STAGE 4 CAUSE "no maximum is subtracted"
  FIND "m = max(m, s_i[c]);" REPLACE "m = 0;")
fa_kernel_mutant(max_of_four STAGE 4 CAUSE "the maximum is taken over 4 of the 8 threads of a row"
  FIND "t < kAcross; t *= 2) m = max" REPLACE "t < kAcross / 2; t *= 2) m = max")
fa_kernel_mutant(sum_of_four STAGE 4 CAUSE "l is summed over 4 of the 8 threads of a row"
  FIND "t < kAcross; t *= 2) l += " REPLACE "t < kAcross / 2; t *= 2) l += ")
fa_kernel_mutant(sum_too_early STAGE 4 CAUSE "l of all 8 threads is summed in every tile, and again at the end"
  FIND "for (int c = 0; c < keys_each; ++c) l += s_i[c];"
  REPLACE "for (int c = 0; c < keys_each; ++c) l += s_i[c];\n      for (int t = 1; t < kAcross; t *= 2) l += __shfl_xor_sync(kAllLanes, l, t);")
fa_kernel_mutant(not_normalised STAGE 4 CAUSE "the final division by l is missing"
  FIND "o_i[x] /= divisor;" REPLACE "{}")
fa_kernel_mutant(l_in_16_bits STAGE 4 CAUSE "the row sum is kept in 16 bits"
  FIND "l += s_i[c];" REPLACE "l = float16(l + s_i[c]);")

# --- the scale, and LSE ---
fa_kernel_mutant(scale_missing STAGE 4 CAUSE "the scale is missing"
  FIND "__fmul_rn(s_i[c], scale)" REPLACE "s_i[c]")
fa_kernel_mutant(scale_of_padded_d STAGE 4 CAUSE "the scale is that of the padded head dimension"
  FIND "__fmul_rn(s_i[c], scale)" REPLACE "__fmul_rn(s_i[c], 1 / sqrtf(float(D)))")
fa_kernel_mutant(fused STAGE 4 CAUSE "s * scale - m is one fused operation, with one rounding"
  FIND "for (int c = 0; c < keys_each; ++c) s_i[c] = __fmul_rn(s_i[c], scale);"
  REPLACE "float raw[keys_each];\n      for (int c = 0; c < keys_each; ++c) raw[c] = s_i[c], s_i[c] = __fmul_rn(s_i[c], scale);"
  FIND2 "s_i[c] = exp_minus(s_i[c], m);"
  REPLACE2 "s_i[c] = s_i[c] == -INFINITY ? 0.0f : expf(__fmaf_rn(raw[c], scale, -m));")
fa_kernel_mutant(lse_without_m STAGE 4 CAUSE "LSE lacks the maximum: log l instead of m + log l"
  FIND "m + logf(l);" REPLACE "logf(l);")
fa_kernel_mutant(lse_base_2 STAGE 4 CAUSE "LSE's logarithm has base 2"
  FIND "logf(l)" REPLACE "log2f(l)")
fa_kernel_mutant(lse_of_other_head STAGE 4 CAUSE "LSE is stored as if there were one batch item"
  FIND "LSE[(b * Q.H + h) * Q.N + i]" REPLACE "LSE[h * Q.N + i]")
fa_kernel_mutant(o_transposed_heads STAGE 4 CAUSE "O is stored to the head of the KV group"
  FIND "O.head(b, h)[i]" REPLACE "O.head(b, h / (Q.H / K.H))[i]")
