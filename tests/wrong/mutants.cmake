# Classic mistakes, one by one. The first of each stage changes nothing and must pass.

foreach(stage 1 2 3)
  fa_mask_mutant(unchanged STAGE ${stage} CAUSE "none: a copy of the stage" CHANGE "")

  # --- which keys a query sees ---
  fa_mask_mutant(causal_ignored STAGE ${stage} CAUSE "the causal mask is ignored"
    CHANGE "mask.causal = false;")
  fa_mask_mutant(mask_mirrored STAGE ${stage} CAUSE "the causal mask shows j >= i instead of j <= i"
    CHANGE "if (mask.causal) mask.causal = false, mask.left = 0;")
  fa_mask_mutant(mask_strict STAGE ${stage} CAUSE "the causal mask shows j < i instead of j <= i"
    CHANGE "if (mask.causal) --mask.diagonal;")
  fa_mask_mutant(window_left_wide STAGE ${stage} CAUSE "the window reaches one key too far to the left"
    CHANGE "if (mask.left >= 0) ++mask.left;")
  fa_mask_mutant(window_right_narrow STAGE ${stage} CAUSE "the window's right bound is taken as exclusive"
    CHANGE "if (mask.right > 0) --mask.right;")
  fa_mutant(empty_row STAGE ${stage} CAUSE "a query that sees no key divides by l = 0"
    FIND "mask.keys(i).empty() ? 1 : l" REPLACE "l")

  # --- normalising, and LSE ---
  fa_mutant(not_normalised STAGE ${stage} CAUSE "the final division by l is missing"
    FIND "o_i[x] /= divisor;" REPLACE "{}")
  fa_mutant(lse_without_m STAGE ${stage} CAUSE "LSE lacks the maximum: log l instead of m + log l"
    FIND "LSE[i] = m + std::log(l);" REPLACE "LSE[i] = std::log(l);")
  fa_mutant(lse_base_2 STAGE ${stage} CAUSE "LSE's logarithm has base 2"
    FIND "std::log(l)" REPLACE "std::log2(l)")
endforeach()

foreach(stage 1 2)
  fa_mask_mutant(diagonal_top_left STAGE ${stage} CAUSE "the diagonal is aligned top-left where Nq and Nkv differ"
    CHANGE "mask.diagonal = 0;")
  fa_mutant(scale_off STAGE ${stage} CAUSE "the scale is 10 % off"
    FIND "s *= scale;" REPLACE "s *= 1.1f * scale;")
  fa_mutant(scale_by_d STAGE ${stage} CAUSE "the scale is 1/d instead of 1/sqrt(d)"
    FIND "s *= scale;" REPLACE "s *= scale * scale;")
  fa_mutant(last_key_dropped STAGE ${stage} CAUSE "the loop over the keys ends one early"
    FIND "Nkv = K.rows" REPLACE "Nkv = std::max<Index>(K.rows - 1, 0)")
  fa_mutant(k_and_v_swapped STAGE ${stage} CAUSE "K and V are swapped"
    FIND "k_j = K[j]" REPLACE "k_j = V[j]" FIND2 "v_j = V[j]" REPLACE2 "v_j = K[j]")
endforeach()

foreach(stage 2 3)
  fa_mutant(o_not_rescaled STAGE ${stage} CAUSE "O is not rescaled when the maximum moves"
    FIND "o_i[x] *= alpha;" REPLACE "{}")
  fa_mutant(l_not_rescaled STAGE ${stage} CAUSE "l is not rescaled when the maximum moves"
    FIND "l *= alpha;" REPLACE "")
  fa_mutant(rescale_inverted STAGE ${stage} CAUSE "the rescale is inverted: exp(m - m_old)"
    FIND "exp_minus(m_old, m)" REPLACE "m_old == -INFINITY ? 0.0f : std::exp(m - m_old)")
endforeach()

# --- stage 1 ---
fa_mutant(m_starts_at_0 STAGE 1 CAUSE "m starts at 0 instead of -inf"
  FIND "float m = -INFINITY;" REPLACE "float m = 0;")
fa_mutant(no_maximum STAGE 1 CAUSE "no maximum is subtracted"
  FIND "m = std::max(m, S[i][j]);" REPLACE "m = 0;")
fa_mutant(tail_counted STAGE 1 CAUSE "padding keys up to a multiple of 64 are counted with score 0"
  FIND "l = 0;\n    for" REPLACE "l = float((64 - Nkv % 64) % 64) * std::exp(-m);\n    for")
fa_mutant(l_in_16_bits STAGE 1 CAUSE "the row sum is kept in 16 bits"
  FIND "l += P[i][j];" REPLACE "l = float16(l + P[i][j]);")
fa_mutant(hidden_score_0 STAGE 1 CAUSE "a hidden score is 0 instead of -inf"
  FIND "S[i][j] = -INFINITY;" REPLACE "S[i][j] = 0;")

# (In stage 2 the same is no mistake: the first key's alpha is 0 and clears o.)
fa_mutant(o_not_cleared STAGE 1 CAUSE "O is not cleared between one query and the next"
  FIND "o_i[x] = 0;" REPLACE "o_i[x] = i == 0 ? 0 : o_i[x];")

# --- stage 2 ---
fa_mutant(m_starts_at_0 STAGE 2 CAUSE "m starts at 0 instead of -inf"
  FIND "float m = -INFINITY, l = 0;" REPLACE "float m = 0, l = 0;")
fa_mutant(no_maximum STAGE 2 CAUSE "no maximum is subtracted"
  FIND "m = std::max(m, s);" REPLACE "m = 0;")
fa_mutant(latest_maximum STAGE 2 CAUSE "m is the latest score instead of the running maximum"
  FIND "m = std::max(m, s);" REPLACE "m = s;")
fa_mutant(normalised_every_step STAGE 2 CAUSE "O is divided by l at every key"
  FIND "o_i[x] += p * v_j[x];" REPLACE "o_i[x] = (o_i[x] + p * v_j[x]) / l;")
fa_mutant(tail_counted STAGE 2 CAUSE "padding keys up to a multiple of 64 are counted with score 0"
  FIND "const float divisor" REPLACE "l += float((64 - Nkv % 64) % 64) * std::exp(-m);\n    const float divisor")
fa_mutant(l_in_16_bits STAGE 2 CAUSE "the row sum is kept in 16 bits"
  FIND "l += p;" REPLACE "l = float16(l + p);")
fa_mutant(wrong_kv_head STAGE 2 CAUSE "query heads take the KV heads in turn (tile) instead of in groups (repeat)"
  FILE cpu_stage.hpp FIND "p.kv_head(task.h)" REPLACE "task.h % p.Hkv")

# --- stage 3 ---
fa_mutant(scale_off STAGE 3 CAUSE "the scale is 10 % off"
  FIND "product(scale, Qi" REPLACE "product(1.1f * scale, Qi")
fa_mutant(scale_by_d STAGE 3 CAUSE "the scale is 1/d instead of 1/sqrt(d)"
  FIND "product(scale, Qi" REPLACE "product(scale * scale, Qi")
fa_mask_mutant(last_key_dropped STAGE 3 CAUSE "the last key is dropped"
  CHANGE "mask.Nkv = std::max<Index>(mask.Nkv - 1, 0);")
fa_mutant(k_and_v_swapped STAGE 3 CAUSE "K and V are swapped"
  FIND "k_tile.load_transposed(K," REPLACE "k_tile.load_transposed(V,"
  FIND2 "v_tile.load(V," REPLACE2 "v_tile.load(K,")
fa_mutant(m_starts_at_0 STAGE 3 CAUSE "m starts at 0 instead of -inf"
  FIND "m_rows.cols, -INFINITY)" REPLACE "m_rows.cols, 0.0f)")
fa_mutant(no_maximum STAGE 3 CAUSE "no maximum is subtracted"
  FIND "m = std::max(m, s_max[i - at.i0]);" REPLACE "m = 0;")
fa_mutant(tile_maximum STAGE 3 CAUSE "m is the tile's maximum instead of the running maximum"
  FIND "m = std::max(m, s_max" REPLACE "m = std::max(-INFINITY, s_max")
fa_mutant(normalised_by_tile STAGE 3 CAUSE "every tile is normalised by itself"
  FIND "l_rows[0][i - i0] += p_sum[i - at.i0];"
  REPLACE "{\n          for (Index j = 0; j < S.cols; ++j) S[j][i - at.i0] /= p_sum[i - at.i0];\n          l_rows[0][i - i0] += 1;\n        }")
fa_mutant(tail_counted STAGE 3 CAUSE "padding keys of the last tile are counted with score 0"
  FIND "+= p_sum[i - at.i0];"
  REPLACE "+= p_sum[i - at.i0] + (at.j1 == Nkv ? float(Bc - at.j1 + at.j0) * std::exp(-m_rows[0][i - i0]) : 0.0f);")
fa_mutant(l_in_16_bits STAGE 3 CAUSE "the row sum is kept in 16 bits"
  FIND "l_rows[0][i - i0] += p_sum[i - at.i0];"
  REPLACE "l_rows[0][i - i0] = float16(l_rows[0][i - i0] + p_sum[i - at.i0]);")
fa_mutant(hidden_after_kept STAGE 3 CAUSE "scores after the visible keys stay in the tile and weigh V"
  FIND "{at.j0, at.j1}), at.j0)" REPLACE "{at.j0, at.j1}).first, at.j1}, at.j0)"
  FIND2 "hide_all_but(" REPLACE2 "hide_all_but({")
fa_mutant(hidden_before_kept STAGE 3 CAUSE "scores before the visible keys stay in the tile and weigh V"
  FIND "{at.j0, at.j1}), at.j0)" REPLACE "{at.j0, at.j1}).last}, at.j0)"
  FIND2 "hide_all_but(" REPLACE2 "hide_all_but({at.j0, ")
fa_mutant(first_query_decides STAGE 3 CAUSE "the tile's first query decides which keys the tile visits"
  FIND "tile_walk(mask, i0" REPLACE "tile_walk(Mask{mask.keys(i0).last}, i0" FIND2 " && !at.whole" REPLACE2 "")
fa_mutant(tile_forgets_its_row STAGE 3 CAUSE "a tile's mask counts queries from its own first row"
  FILE cpu_stage.hpp FIND "p.mask().from_query(task.first)" REPLACE "p.mask()")
fa_mutant(diagonal_top_left STAGE 3 CAUSE "the diagonal is aligned top-left where Nq and Nkv differ"
  FILE cpu_stage.hpp FIND "p.mask().from_query(task.first)" REPLACE "p.mask().from_query(task.first + p.Nq - p.Nkv)")

# A cheap exp, right where one weight decides.
fa_mutant(small_weights STAGE 1 CAUSE "weights below e^-13 are taken as 0"
  FIND "exp_minus(S[i][j], m)" REPLACE "S[i][j] - m < -13 ? 0 : exp_minus(S[i][j], m)")
fa_mutant(small_weights STAGE 2 CAUSE "weights below e^-13 are taken as 0"
  FIND "p = exp_minus(s, m)" REPLACE "p = s - m < -13 ? 0 : exp_minus(s, m)")
