# Classic mistakes in the steps of stage 5, each in the steps where it can be made. The first changes
# nothing and must pass. FAULT as in kernel_mutants.cmake.
set(in_flight "data of a copy touched before its wait")
set(both "${in_flight} and ${race}")

fa_step_mutant(unchanged STEPS 1 4 5i 5p 6f CAUSE "none: a copy of the step"
  FIND "using namespace fa;" REPLACE "using namespace fa;")

# --- barriers and waits ---
fa_step_mutant(no_barrier_before STEPS 1 FAULT "${race}"
  CAUSE "no barrier before the tiles of K and V are overwritten"
  FIND "__syncthreads();  // nobody needs the tiles before any more" REPLACE "")
fa_step_mutant(no_barrier_before STEPS 3 FAULT "${both}"
  CAUSE "no barrier before the tiles of K and V are overwritten"
  FIND "__syncthreads();  // nobody needs the tiles before any more" REPLACE "")
fa_step_mutant(no_barrier_after STEPS 1 FAULT "${race}"
  CAUSE "no barrier after the tiles of K and V are loaded"
  FIND "__syncthreads();  // everybody's part is there" REPLACE "")
fa_step_mutant(no_barrier STEPS 4 FAULT "${race}"
  CAUSE "no barrier between the copy of a tile and its use"
  FIND "__syncthreads();  // everybody's part is there, and nobody needs the one before any more" REPLACE "")
# A warp is done with Q before others have begun to copy theirs, and writes O over what it read.
fa_step_mutant(no_barrier STEPS 5i FAULT "${race} and ${unwritten}"
  CAUSE "no barrier between the copy of a tile and its use"
  FIND "__syncthreads();  // everybody's part is there, and nobody needs the one before any more" REPLACE "")
fa_step_mutant(no_wait_for_k STEPS 3 FAULT "${both}" CAUSE "no wait for the copies of Q and K"
  FIND "cp_async_wait<1>();" REPLACE "")
fa_step_mutant(no_wait_for_v STEPS 3 FAULT "${in_flight}" CAUSE "no wait for the copy of V"
  FIND "cp_async_wait<0>();" REPLACE "")
fa_step_mutant(no_wait STEPS 4 5i FAULT "${in_flight}" CAUSE "no wait for the copies of a tile"
  FIND "cp_async_wait<0>();
    __syncthreads();  // everybody's part" REPLACE "__syncthreads();  // everybody's part")
fa_step_mutant(wait_too_short STEPS 4 5i FAULT "${both}"
  CAUSE "the wait leaves one group of copies under way, which is V's"
  FIND "cp_async_wait<0>();
    __syncthreads();  // everybody's part" REPLACE "cp_async_wait<1>();
    __syncthreads();  // everybody's part")
fa_step_mutant(no_wait STEPS 5p FAULT "${in_flight}" CAUSE "no wait for the copies of a stage"
  FIND "cp_async_wait<0>();
      __syncthreads();  // everybody's part" REPLACE "__syncthreads();  // everybody's part")
fa_step_mutant(wait_too_short STEPS 5p FAULT "${both}"
  CAUSE "the wait leaves one group of copies under way, which is V's"
  FIND "cp_async_wait<0>();
      __syncthreads();  // everybody's part" REPLACE "cp_async_wait<1>();
      __syncthreads();  // everybody's part")
# A warp turns round what others have not begun to copy, and writes it.
fa_step_mutant(no_wait_for_sign STEPS 5b 5i 5p FAULT "${both} and ${unwritten}"
  CAUSE "Q's sign is turned round while Q is still under way"
  FIND "cp_async_wait<0>();
    __syncthreads();
    for" REPLACE "for")
fa_step_mutant(no_syncwarp_before_o STEPS 5i FAULT "${race}"
  CAUSE "O is written over Q while a lane may still read it"
  FIND "__syncwarp();                                              // no lane reads Q" REPLACE "// no lane reads Q")
fa_step_mutant(no_syncwarp_before_o STEPS 5p FAULT "${race}"
  CAUSE "O is written over Q while a lane may still read it"
  FIND "__syncwarp();                  // no lane reads Q" REPLACE "// no lane reads Q")
fa_step_mutant(no_syncwarp_after_o STEPS 5i 5p 6d FAULT "${race}" CAUSE "O is read before all lanes wrote it"
  FIND "__syncwarp();
  //# region store" REPLACE "//# region store")
fa_step_mutant(no_wait_without_keys STEPS 5p FAULT "${in_flight}"
  CAUSE "where no key is visible O is written over Q that is still under way"
  FIND "if (seen.count == 0)" REPLACE "if (false)")
fa_step_mutant(no_wait_without_keys STEPS 5i FAULT "${both}"
  CAUSE "where no key is visible O is written over Q that is still under way"
  FIND "if (seen.count == 0)" REPLACE "if (false)")

# --- the two buffers ---
fa_step_mutant(same_buffer_read STEPS 4 5g FAULT "${both}"
  CAUSE "V is always read from the first buffer"
  FIND "sV = sV_both + buffer * Bc" REPLACE "sV = sV_both")
fa_step_mutant(same_buffer_filled STEPS 4 5g FAULT "${both} and ${unwritten}"
  CAUSE "the next tile of K goes into the buffer that is being read"
  FIND "sK_both + (buffer ^ 1) * Bc" REPLACE "sK_both + buffer * Bc")
fa_step_mutant(same_half STEPS 5h 5i FAULT "${both} and ${unwritten}"
  CAUSE "the next tile of K goes into the half that is being read"
  FIND "sK + (Bc - here)" REPLACE "sK + here")
fa_step_mutant(same_half STEPS 5k FAULT "${both} and ${unwritten}"
  CAUSE "the next tile goes into the half that is being read"
  FIND "there = kPages * Bc - here" REPLACE "there = here")
fa_step_mutant(same_half STEPS 5p FAULT "${both} and ${unwritten}"
  CAUSE "the next stage goes into the half that is being read"
  FIND "there = kPages * kStage - here" REPLACE "there = here")

# --- who has which element ---
fa_step_mutant(swizzle_not_stored STEPS 2 CAUSE "tiles are stored plainly and read swizzled"
  FIND "at(tile, i, x)[0] = " REPLACE "tile[i][x] = ")
fa_step_mutant(swizzle_not_stored STEPS 3 5d CAUSE "tiles are copied plainly and read swizzled"
  FIND "at(tile + i, row, column) + x" REPLACE "tile[row + i] + column + x")
fa_step_mutant(swizzle_of_other_row STEPS 5i CAUSE "tiles are copied with the swizzle of another row"
  FIND "at(tile + i, row, column) + x" REPLACE "tile[row + i] + (column ^ (row + 1) % 8 * 8) + x")
fa_step_mutant(swizzle_of_one_side STEPS 5k CAUSE "tiles are copied plainly and read swizzled"
  FIND "Place<T, Bc> k_copy(sK, copy_row, copy_column)"
  REPLACE "Place<T, Bc> k_copy(sK, copy_row, copy_column ^ copy_row % 8 * 8)")
fa_step_mutant(swizzle_of_one_side STEPS 5p CAUSE "tiles are copied plainly and read swizzled"
  FIND "Place<T, kStage> k_copy(sK, copy_row, copy_column)"
  REPLACE "Place<T, kStage> k_copy(sK, copy_row, copy_column ^ copy_row % 8 * 8)")
fa_step_mutant(q_read_plainly STEPS 5p 6f CAUSE "Q is read as if its rows were not swizzled"
  FIND "q_place(sQ, row0 + below, beside)" REPLACE "q_place(sQ, row0 + below, beside ^ lane % 8 * 8)")
fa_step_mutant(k_lanes STEPS 5j 5p 6f CAUSE "ldmatrix takes K's four matrices in Q's order"
  FIND "k_place(sK, lane % 8 + beside, lane % 16 / 8 * 8)" REPLACE "k_place(sK, below, beside)")
fa_step_mutant(q_lanes STEPS 5j 5p 6f CAUSE "ldmatrix takes Q's four matrices in K's order"
  FIND "q_place(sQ, row0 + below, beside)"
  REPLACE "q_place(sQ, row0 + lane % 8 + beside, lane % 16 / 8 * 8)")
fa_step_mutant(second_part STEPS 5o 6f CAUSE "the second 64 keys of a stage get the first ones' values"
  FIND ".at(part + k0, 8 * n)" REPLACE ".at(k0, 8 * n)")
fa_step_mutant(second_rows STEPS 5p 6f CAUSE "the warp's second 16 queries are the first once more"
  FIND "ldmatrix_x4(q_tile[x / 16][w], q_place.at(16 * w, x))" REPLACE "ldmatrix_x4(q_tile[x / 16][w], q_place.at(0, x))")
fa_step_mutant(k_lanes STEPS 2 5i CAUSE "ldmatrix takes K's four matrices in Q's order"
  FIND "k_below = lane % 8 + beside, k_beside = lane % 16 / 8 * 8" REPLACE "k_below = below, k_beside = beside")
fa_step_mutant(q_lanes STEPS 2 5i CAUSE "ldmatrix takes Q's four matrices in K's order"
  FIND "at(sQ, row0 + 16 * w + below, x + beside)" REPLACE "at(sQ, row0 + 16 * w + k_below, x + k_beside)")
fa_step_mutant(v_not_transposed STEPS 2 5i 5p 6f CAUSE "V is not transposed"
  FIND "ldmatrix_x4_trans(v[0], v[1]," REPLACE "ldmatrix_x4(v[0], v[1],")
fa_step_mutant(v_halves STEPS 1 CAUSE "the two halves of V's register are exchanged"
  FIND "pair<T>(sV[k][y], sV[k + 1][y])" REPLACE "pair<T>(sV[k + 1][y], sV[k][y])")
fa_step_mutant(p_swapped STEPS 1 4 5f 5i 5p 6f CAUSE "two of P's four registers are exchanged"
  FIND "s_tile[w][k0 / 8 + a / 2][a % 2 * 2]" REPLACE "s_tile[w][k0 / 8 + a % 2][a / 2 * 2]")
fa_step_mutant(second_rows STEPS 5a 5i CAUSE "the warp's second 16 queries are the first once more"
  FIND "row0 + 16 * w + below" REPLACE "row0 + below")

# --- which rows, keys, heads ---
fa_step_mutant(keys_one_more STEPS 1 3 FAULT "${beyond}" CAUSE "the tail of the keys has one row too many"
  FIND "j1 = min(j0 + Bc, keys.last)" REPLACE "j1 = min(j0 + Bc, keys.last + 1)")
fa_step_mutant(keys_one_more STEPS 4 5f FAULT "${beyond}" CAUSE "the tail of the values has one row too many"
  FIND "gV, next, keys.last)" REPLACE "gV, next, keys.last + 1)")
fa_step_mutant(keys_one_more STEPS 5i 5p FAULT "${beyond}" CAUSE "the tail of the values has one row too many"
  FIND "v_next, v_stride, left, columns)" REPLACE "v_next, v_stride, left + 1, columns)")
fa_step_mutant(keys_one_fewer STEPS 1 3 CAUSE "the tail of the keys lacks its last row"
  FIND "j1 = min(j0 + Bc, keys.last)" REPLACE "j1 = min(j0 + Bc, keys.last - 1)")
fa_step_mutant(keys_one_fewer STEPS 5i 5p CAUSE "the tail of the values lacks its last row"
  FIND "v_next, v_stride, left, columns)" REPLACE "v_next, v_stride, left - 1, columns)")
fa_step_mutant(no_zero_fill STEPS 5i 5p FAULT "${beyond}" CAUSE "rows and columns that aren't there are read"
  FIND "is_there ? 16 : 0" REPLACE "16")
fa_step_mutant(no_zero_fill STEPS 3 5f FAULT "${beyond}" CAUSE "rows and columns that aren't there are read"
  FIND "+ x, bytes);" REPLACE "+ x, 16);")
fa_step_mutant(rows_stored STEPS 1 5d FAULT "${beyond}" CAUSE "rows of O beyond the last query are stored"
  FIND "if (i >= i1) continue;" REPLACE "")
fa_step_mutant(rows_stored STEPS 6d FAULT "${beyond}" CAUSE "rows of O beyond the last query are stored"
  FIND "if (row0 + i < rows) store" REPLACE "store")
fa_step_mutant(rows_stored STEPS 5i 5p FAULT "${beyond}" CAUSE "rows of O beyond the last query are stored"
  FIND "row0 + i < rows && x < columns" REPLACE "x < columns")
fa_step_mutant(columns_stored STEPS 5i 5p FAULT "${beyond}" CAUSE "columns of O beyond d are stored"
  FIND "row0 + i < rows && x < columns" REPLACE "row0 + i < rows")
fa_step_mutant(lse_rows_stored STEPS 5i 5p 6f FAULT "${beyond}" CAUSE "LSE beyond the last query is stored"
  FIND "t < R && i < rows" REPLACE "t < R")
fa_step_mutant(row_stored STEPS 5i 6f FAULT "${beyond}" CAUSE "LSE has one row more than there are queries"
  FIND "t < R && i < rows" REPLACE "t < R && i <= rows")
fa_step_mutant(row_missing STEPS 6d CAUSE "O lacks the block's last row"
  FIND "if (row0 + i < rows)" REPLACE "if (row0 + i < rows - 1)")
fa_step_mutant(lse_of_other_row STEPS 5i CAUSE "a row's first thread keeps m and l of the last row for LSE"
  FIND "if (t == r) m_mine" REPLACE "if (t == 0) m_mine")
fa_step_mutant(lse_of_other_row STEPS 6f CAUSE "a row's first thread keeps l of the last row for LSE"
  FIND "if (t == r) l_mine" REPLACE "if (t == 0) l_mine")
fa_step_mutant(lse_of_own_m STEPS 6f CAUSE "LSE has the m of the thread's first row"
  FIND "= sM[t * kThreads] * size" REPLACE "= sM[0] * size")
fa_step_mutant(pieces_exchanged STEPS 5i 6d CAUSE "a piece of O is stored where the one beside it belongs"
  FIND "O.row_stride + x), pieces[n]" REPLACE "O.row_stride + x), pieces[n ^ 1]")
fa_step_mutant(v_of_other_head STEPS 1 4 CAUSE "V is read with another head map than K"
  FIND "gV = V.head(b, h / (Q.H / K.H))" REPLACE "gV = V.head(b, h % K.H)")
fa_step_mutant(v_of_other_head STEPS 6f CAUSE "V is read with another head map than K"
  FIND "maps.V, first_key + key, kv, b" REPLACE "maps.V, first_key + key, h % K.H, b")
fa_step_mutant(v_of_other_head STEPS 5i 5p CAUSE "V is read with another head map than K"
  FIND "gV = V.head(b, kv)" REPLACE "gV = V.head(b, h % K.H)")
fa_step_mutant(head_not_mapped STEPS 5i 5p FAULT "${beyond}"
  CAUSE "query heads read the KV head of their own number"
  FIND "gK = K.head(b, kv)" REPLACE "gK = K.head(b, h)")

# --- the mask ---
fa_step_mutant(mask_one_more STEPS 1 5b CAUSE "the mask is one query late: a causal mask shows j <= i + 1"
  FIND "mask.visible(i0 + i, " REPLACE "mask.visible(i0 + i + 1, ")
fa_step_mutant(mask_one_more STEPS 5l 5p 6f CAUSE "the mask is one query late: a causal mask shows j <= i + 1"
  FIND "0 : tile.last(i);" REPLACE "0 : tile.last(i + 1);")
fa_step_mutant(mask_one_fewer STEPS 5p 6f CAUSE "the mask is one query early: a causal mask shows j < i"
  FIND "0 : tile.last(i);" REPLACE "0 : tile.last(i - 1);")
fa_step_mutant(mask_one_more STEPS 5c 5i CAUSE "the mask is one query late: a causal mask shows j <= i + 1"
  FIND "last = tile.last(i);" REPLACE "last = tile.last(i + 1);")
fa_step_mutant(mask_one_fewer STEPS 5c 5i CAUSE "the mask is one query early: a causal mask shows j < i"
  FIND "last = tile.last(i);" REPLACE "last = tile.last(i - 1);")
fa_step_mutant(window_one_more STEPS 5c 5i 5p 6f CAUSE "the window's left end is one query early"
  FIND "first = tile.first(i)," REPLACE "first = tile.first(i - 1),")
fa_step_mutant(all_visible STEPS 1 CAUSE "a tile that some queries see in part takes no mask test"
  FIND "j0 + Bc <= keys_of_all.last" REPLACE "j0 < keys_of_all.last")
fa_step_mutant(all_visible STEPS 5k 5p CAUSE "a tile that some queries see in part takes no mask test"
  FIND "whole = j0 >= all_first && j0 + Bc <= all_last" REPLACE "whole = j0 >= all_first && j0 < all_last")
fa_step_mutant(left_edge STEPS 5q 6f CAUSE "a tile in which some queries' keys begin takes no mask test"
  FIND "exact || j0 < all_first || j0 + Bc > all_last" REPLACE "exact || j0 + Bc > all_last")
fa_step_mutant(right_edge STEPS 5q 6f CAUSE "a tile in which some queries' keys end takes no mask test"
  FIND "exact || j0 < all_first || j0 + Bc > all_last" REPLACE "exact || j0 < all_first")
fa_step_mutant(warp_skips STEPS 5k 5p 6f CAUSE "a warp skips a tile that its first query doesn't see"
  FIND "some_last = seen.last(row0 + kRows - 1)" REPLACE "some_last = seen.last(row0)")
fa_step_mutant(last_key STEPS 5k 5q CAUSE "a warp's last key is that of its last query but one"
  FIND "some_last = seen.last(row0 + kRows - 1)" REPLACE "some_last = seen.last(row0 + kRows - 2)")
fa_step_mutant(first_key STEPS 5p 6d CAUSE "a warp's first key is that of its second query"
  FIND "some_first = seen.first(row0)" REPLACE "some_first = seen.first(row0 + 1)")
fa_step_mutant(leaves_one STEPS 5m CAUSE "a warp skips a tile whose last key alone it sees"
  FIND "j0 + Bc <= some_first" REPLACE "j0 + Bc <= some_first + 1")
fa_step_mutant(all_but_one STEPS 5k 5q CAUSE "what all queries see is taken from the last but one"
  FIND "all_first = seen.first(row0 + kRows - 1)" REPLACE "all_first = seen.first(row0 + kRows - 2)")
fa_step_mutant(all_visible STEPS 5c 5i CAUSE "a tile that some queries see in part takes no mask test"
  FIND "tile.last(0) >= Bc" REPLACE "tile.last(0) > 0")
fa_step_mutant(warp_skips STEPS 5c 5i CAUSE "a warp skips a tile that its first query doesn't see"
  FIND "tile.last(row0 + kRows - 1) <= 0" REPLACE "tile.last(row0) <= 0")
fa_step_mutant(empty_row STEPS 1 5d CAUSE "a query that sees no key divides by l = 0"
  FIND "mask.keys(i).empty() ? 1 : l" REPLACE "l")

# --- the recurrence ---
fa_step_mutant(o_not_rescaled STEPS 1 4 5d 5i 5p 6f CAUSE "O is not rescaled when the maximum moves"
  FIND "o_i[n][e] *= alpha, o_i[n][e + 1] *= alpha;" REPLACE "{}")
fa_step_mutant(l_not_rescaled STEPS 1 5c CAUSE "l is not rescaled when the maximum moves"
  FIND "l *= alpha;" REPLACE "")
fa_step_mutant(l_not_rescaled STEPS 5e 5i 5p 6f CAUSE "l is not rescaled when the maximum moves"
  FIND "l_tile[r / 2][e] *= alpha;" REPLACE "")
fa_step_mutant(max_of_two STEPS 1 5d CAUSE "the maximum is taken over 2 of the 4 threads of a row"
  FIND "other < 4; other *= 2) m = max" REPLACE "other < 2; other *= 2) m = max")
fa_step_mutant(max_of_two STEPS 5m 5p CAUSE "the maximum is taken over 2 of the 4 threads of a row"
  FIND "other < 4; other *= 2)" REPLACE "other < 2; other *= 2)")
fa_step_mutant(max_of_two STEPS 5q 6f CAUSE "the maximum is taken over 2 of the 4 threads of a row"
  FIND "by < 4; by *= 2)" REPLACE "by < 2; by *= 2)")
fa_step_mutant(m_of_neighbours STEPS 5q 6f CAUSE "m moves in all rows of a warp where one row asks for it"
  FIND "if (!exact && !(m * c - mc_rows[r] > kSlack)) m = m_old;" REPLACE "")
fa_step_mutant(m_stays STEPS 5q 6f CAUSE "m moves only for a score that has passed it by 2^8, in the second pass too"
  FIND "if (!exact && !(m * c" REPLACE "if (!(m * c")
fa_step_mutant(sum_of_two STEPS 1 5d CAUSE "l is summed over 2 of the 4 threads of a row"
  FIND "other < 4; other *= 2) l += " REPLACE "other < 2; other *= 2) l += ")
fa_step_mutant(ones_of_half STEPS 5e 5i 5p 6f CAUSE "half of the ones that P is multiplied with are 0"
  FIND "{kOnes<T>, kOnes<T>}" REPLACE "{kOnes<T>, 0}")
fa_step_mutant(no_slack_test STEPS 5d 5i CAUSE "m moves for no score: P overflows 16 bits"
  FIND "constexpr float kSlack = 8;" REPLACE "constexpr float kSlack = 1e30f;")

# --- the scale, and LSE ---
fa_step_mutant(no_huge STEPS 5b 5d CAUSE "no care for huge scores: 2^(c s - c m) in one rounding"
  FIND "if (fabsf(mc) > kHuge)" REPLACE "if (false)")
fa_step_mutant(no_huge STEPS 5f 5i CAUSE "no care for huge scores: 2^(c s - c m) in one rounding"
  FIND "if (fabsf(mc_rows[r]) > kHuge) {" REPLACE "if (false) {")
fa_step_mutant(no_huge STEPS 5l 5p 6a 6b 6f CAUSE "no care for huge scores: 2^(c s - c m) in one rounding"
  FIND "if (m != -INFINITY && fabsf(m * c) > kHuge) {" REPLACE "if (false) {")
fa_step_mutant(huge_too_late STEPS 5b 5d CAUSE "c m is rounded where a weight of 1 must stay 1 for l, which sums P unrounded"
  FIND "constexpr float kHuge = 1 << 10" REPLACE "constexpr float kHuge = 1 << 20")
fa_step_mutant(sign_ignored STEPS 5b 5i 5p 6f CAUSE "a negative scale is taken as positive"
  FIND "if (scale < 0)" REPLACE "if (false)")
fa_step_mutant(base_e STEPS 5b CAUSE "2^(scale s) instead of e^(scale s)"
  FIND "c = size * 1.44269504f" REPLACE "c = size")
fa_step_mutant(lse_base_2 STEPS 5b CAUSE "LSE has m in powers of 2"
  FIND "= m * size + logf" REPLACE "= m * c + logf")
fa_step_mutant(lse_base_2 STEPS 5i 5p CAUSE "LSE has m in powers of 2"
  FIND "= m_mine * size + logf" REPLACE "= m_mine * c + logf")
fa_step_mutant(lse_base_2 STEPS 6f CAUSE "LSE has m in powers of 2"
  FIND "* size + logf" REPLACE "* c + logf")

# --- the optimistic maximum and the second pass ---
fa_step_mutant(max_too_early STEPS 5m 5p 5q 6f
  CAUSE "m is fixed by the first tiles, though a query may see nothing of them"
  FIND "exact || j0 < all_first + Bc" REPLACE "exact || j0 <= some_first"
  FIND2 "-INFINITY ? -3.4e38f" REPLACE2 "-INFINITY ? 0")  # else the second pass makes it good
# The vote is the barrier before O is written where no key is visible.
fa_step_mutant(no_second_pass STEPS 5p FAULT "${race}" CAUSE "no second pass for the rows whose first one failed"
  FIND "if (exact || !__syncthreads_or(finished != (1u << R) - 1)) break;" REPLACE "break;")
fa_step_mutant(no_second_pass STEPS 5l 5m 6d CAUSE "no second pass for the rows whose first one failed"
  FIND "if (exact || !__syncthreads_or(finished != (1u << R) - 1)) break;" REPLACE "break;")
fa_step_mutant(no_second_pass STEPS 6f CAUSE "no second pass for the rows whose first one failed"
  FIND "if (exact || !__any_sync(kAllLanes, __syncthreads_or(finished != (1u << R) - 1))) break;" REPLACE "break;")
fa_step_mutant(l_not_reset STEPS 5l CAUSE "the second pass adds to the l of the first"
  FIND "m_rows[r] = -INFINITY, l_tile[r / 2][e] = 0;" REPLACE "m_rows[r] = -INFINITY;")
fa_step_mutant(l_not_reset STEPS 5p 6f CAUSE "the second pass adds to the l of the first"
  FIND "sM[r * kThreads] = -INFINITY, l_tile[r / 2][e] = 0;" REPLACE "sM[r * kThreads] = -INFINITY;")
fa_step_mutant(o_not_reset STEPS 5l 5p 6f CAUSE "the second pass adds to the O of the first"
  FIND "for (int n = 0; n < D / 8; ++n) o_i[n][e] = o_i[n][e + 1] = 0;" REPLACE "")
fa_step_mutant(all_reset STEPS 5l 6f CAUSE "what is done is reset too, and the second pass leaves it out"
  FIND "if (exact || (finished >> r & 1)) continue;" REPLACE "if (exact) continue;")
fa_step_mutant(finished_again STEPS 5m 5p 6f CAUSE "the second pass sums up rows that are done once more"
  FIND "finished >> r & 1 ? 0 : tile.last(i)" REPLACE "tile.last(i)")

# --- TMA and its barriers ---
set(arrivals "more arrivals than an mbarrier expects")
set(bytes "more bytes than an mbarrier expects")
set(parity "wait at an mbarrier that can't end")
set(not_waited "data of a copy touched without waiting at its mbarrier")
set(not_fenced "copy without a fence_proxy_async before it")
fa_step_mutant(no_wait_for_q STEPS 6a 6d FAULT "block ends with a copy under way and ${in_flight}"
  CAUSE "no wait for the bytes of Q"
  FIND "mbarrier_wait(q_full, 0);
    for (int x" REPLACE "for (int x")
fa_step_mutant(no_wait_for_q STEPS 6f FAULT "block ends with a copy under way and ${in_flight}"
  CAUSE "no wait for the bytes of Q"
  FIND "mbarrier_wait(q_full, 0);
    for (int x" REPLACE "for (int x")
# Phases run ahead of the copies, and all the rest follows.
set(ahead "block ends with a copy under way and ${in_flight} and ${arrivals} and ${bytes}")
fa_step_mutant(no_wait_for_full STEPS 6b FAULT "${ahead}" CAUSE "no wait for the bytes of a stage"
  FIND "mbarrier_wait(full + turn % 2, turn / 2 % 2);" REPLACE "")
fa_step_mutant(no_wait_for_full STEPS 6c FAULT "${ahead} and ${race} and ${unwritten} and ${parity}"
  CAUSE "no wait for the bytes of a stage"
  FIND "mbarrier_wait(full + turn % 2, turn / 2 % 2);" REPLACE "")
fa_step_mutant(parity_of_full STEPS 6b FAULT "${ahead}" CAUSE "a stage's parity is its number's"
  FIND "mbarrier_wait(full + turn % 2, turn / 2 % 2);" REPLACE "mbarrier_wait(full + turn % 2, turn % 2);")
# Where a second pass begins with turn 1 (huge scores, one stage), place 1 is read before anything is there.
fa_step_mutant(parity_of_full STEPS 6c FAULT "${ahead} and ${race} and ${unwritten} and ${parity}"
  CAUSE "a stage's parity is its number's"
  FIND "mbarrier_wait(full + turn % 2, turn / 2 % 2);" REPLACE "mbarrier_wait(full + turn % 2, turn % 2);")
fa_step_mutant(parity_of_empty STEPS 6c 6e 6f FAULT "${parity}" CAUSE "the refill waits for the other parity of empty"
  FIND "(turn - 1) / 2 % 2" REPLACE "(turn + 1) / 2 % 2")
fa_step_mutant(no_barrier STEPS 6b FAULT "${not_waited} and ${race} and ${parity}"
  CAUSE "a stage is filled anew while warps read it"
  FIND "__syncthreads();  // nobody needs the one before any more" REPLACE "")
fa_step_mutant(no_wait_for_empty STEPS 6c FAULT "${not_waited} and ${arrivals} and ${race}"
  CAUSE "a stage is filled anew while warps read it"
  FIND "mbarrier_wait(empty + (turn - 1) % 2, (turn - 1) / 2 % 2);" REPLACE "")
fa_step_mutant(no_fence STEPS 6b 6f FAULT "${not_fenced}" CAUSE "no fence between what was read and the copy over it"
  FIND "fence_proxy_async();  // what was read there is read" REPLACE "")
fa_step_mutant(no_syncwarp STEPS 6c 6e 6f FAULT "${race}"
  CAUSE "lane 0 says that its warp has read the stage while others still read"
  FIND "__syncwarp();  // all lanes have read the stage" REPLACE "")
fa_step_mutant(expect_half STEPS 6b 6f FAULT "${bytes}" CAUSE "the barrier is told of K's bytes alone"
  FIND "full + turn % 2, 4 * kStage * D" REPLACE "full + turn % 2, 2 * kStage * D")
fa_step_mutant(k_v_exchanged STEPS 6b 6f CAUSE "the stages of K and V are exchanged"
  FIND "sK + here, maps.K" REPLACE "sK + here, maps.V" FIND2 "sV + here, maps.V" REPLACE2 "sV + here, maps.K")
fa_step_mutant(two_refill STEPS 6c 6f
  FAULT "block ends with a copy under way and ${in_flight} and ${not_waited} and ${arrivals} and ${bytes}"
  CAUSE "two warps fill the same stage anew"
  FIND "warp != int(turn % kWarps)" REPLACE "warp / 2 != int(turn % 2)")
fa_step_mutant(none_refills STEPS 6c FAULT "${parity}" CAUSE "no warp fills a stage anew"
  FIND "warp != int(turn % kWarps)" REPLACE "warp != kWarps")
fa_step_mutant(warp_skips_arrival STEPS 6c FAULT "${arrivals} and ${parity}"
  CAUSE "three warps say that they have read the stage"
  FIND "if (lane == 0) mbarrier_arrive(empty" REPLACE "if (lane == 0 && warp > 0) mbarrier_arrive(empty")

# --- stages that a warp only hands on ---
fa_step_mutant(pass_without_wait STEPS 6d FAULT "${arrivals}" CAUSE "a stage is handed on before its bytes have landed"
  FIND "for (; stage < last; ++stage, ++turn) {
        mbarrier_wait(full + turn % 2, turn / 2 % 2);" REPLACE "for (; stage < last; ++stage, ++turn) {")
fa_step_mutant(pass_without_arrival STEPS 6d FAULT "${arrivals} and ${parity}"
  CAUSE "nobody hears that a stage is handed on"
  FIND "refill(stage, turn);
        if (lane == 0) mbarrier_arrive(empty + turn % 2);
      }" REPLACE "refill(stage, turn);
      }")
fa_step_mutant(not_passed STEPS 6d FAULT "${in_flight} and ${arrivals}"
  CAUSE "the stages behind the last key aren't handed on"
  FIND "    pass_by(stages);" REPLACE "")
fa_step_mutant(pass_too_far STEPS 6d CAUSE "the stage in which the first key lies is handed on too"
  FIND "pass_by(min(some_first / kStage, stages))" REPLACE "pass_by(min(some_first / kStage + 1, stages))")
fa_step_mutant(pass_too_early STEPS 6d CAUSE "the stage in which the last key lies is handed on too"
  FIND "stage * kStage < some_last;" REPLACE "(stage + 1) * kStage < some_last;")
# With stages of one part, as for D = 128, a warp hands on stages that are filled anew.
fa_step_mutant(one_part STEPS 6d CAUSE "none: a stage has one part"
  FIND "kStage = D > 64 ? Bc : 2 * Bc;" REPLACE "kStage = Bc;")
fa_step_mutant(pass_without_refill STEPS 6d FAULT "${parity}"
  CAUSE "a stage is handed on, and the warp's turn to fill the next one is missed"
  FIND "kStage = D > 64 ? Bc : 2 * Bc;" REPLACE "kStage = Bc;"
  FIND2 "refill(stage, turn);
        if (lane == 0) mbarrier_arrive" REPLACE2 "if (lane == 0) mbarrier_arrive")
fa_step_mutant(not_passed_before STEPS 6d FAULT "${parity}"
  CAUSE "the stages before the first key aren't handed on, but skipped"
  FIND "kStage = D > 64 ? Bc : 2 * Bc;" REPLACE "kStage = Bc;"
  FIND2 "pass_by(min(some_first / kStage, stages));" REPLACE2 "stage = some_first / kStage;")
fa_step_mutant(pass_one_more STEPS 6d CAUSE "a stage of which the first key is the last one is handed on"
  FIND "kStage = D > 64 ? Bc : 2 * Bc;" REPLACE "kStage = Bc;"
  FIND2 "min(some_first / kStage" REPLACE2 "min((some_first + 1) / kStage")

# --- where a stage asks for the next one ---
fa_step_mutant(no_wait_for_empty STEPS 6e 6f FAULT "${not_waited} and ${arrivals} and ${race}"
  CAUSE "a stage is filled anew while warps read it"
  FIND "mbarrier_wait_together(empty + (turn - 1) % 2, (turn - 1) / 2 % 2);" REPLACE "")
fa_step_mutant(no_wait_for_full STEPS 6e 6f FAULT "${ahead} and ${race} and ${unwritten} and ${parity}"
  CAUSE "no wait for the bytes of a stage"
  FIND "//# region load_kv
      mbarrier_wait_together(full + turn % 2, turn / 2 % 2);" REPLACE "//# region load_kv")
fa_step_mutant(parity_of_full STEPS 6e 6f FAULT "${ahead} and ${race} and ${unwritten} and ${parity}"
  CAUSE "a stage's parity is its number's"
  FIND "//# region load_kv
      mbarrier_wait_together(full + turn % 2, turn / 2 % 2);" REPLACE "//# region load_kv
      mbarrier_wait_together(full + turn % 2, turn % 2);")
fa_step_mutant(warp_skips_arrival STEPS 6e 6f FAULT "${arrivals} and ${parity}"
  CAUSE "three warps say that they have read the stage"
  FIND "__syncwarp();  // all lanes have read the stage
      if (lane == 0)" REPLACE "__syncwarp();  // all lanes have read the stage
      if (lane == 0 && warp > 0)")
fa_step_mutant(refill_each_part STEPS 6e FAULT "${in_flight} and ${arrivals} and ${bytes}"
  CAUSE "each part of a stage asks for the next stage"
  FIND "part == 0 && k0 == (D" REPLACE "k0 == (D")
fa_step_mutant(refill_never STEPS 6e FAULT "${parity}" CAUSE "a stage that is computed doesn't ask for the next one"
  FIND "part == 0 && k0 == (D" REPLACE "part == 1 && k0 == (D")

# --- O by TMA ---
fa_step_mutant(no_fence_for_o STEPS 6f FAULT "${not_fenced}"
  CAUSE "no fence between what was written and its copy"
  FIND "fence_proxy_async();  // what this lane wrote can be copied" REPLACE "")
fa_step_mutant(no_syncwarp_for_o STEPS 6f FAULT "${race}" CAUSE "O is copied before all lanes wrote it"
  FIND "__syncwarp();
  if (lane == 0) {
    for (int page" REPLACE "if (lane == 0) {
    for (int page")
fa_step_mutant(no_wait_for_o STEPS 6f FAULT "block ends with a copy under way"
  CAUSE "no wait until O is copied"
  FIND "tma_store_wait();  // " REPLACE "// ")
fa_step_mutant(o_of_other_warp STEPS 6f FAULT "${both}" CAUSE "all warps copy the first one's rows"
  FIND "sQ + (page * Br + row0), page" REPLACE "sQ + page * Br, page")
fa_step_mutant(o_of_other_head STEPS 6f CAUSE "O is stored where K's head is"
  FIND "i0 + row0, h, b)" REPLACE "i0 + row0, kv, b)")
fa_step_mutant(empty_row STEPS 6f CAUSE "a query that sees no key divides by l = 0"
  FIND "if (seen.last(row + 8 * r) <= seen.first(row + 8 * r)) l_tile" REPLACE "if (false) l_tile")

# --- the fast lane ---
fa_step_mutant(calm_too_early STEPS 5r CAUSE "the fast lane begins with the stage that gives rows their m"
  FIND "from >= all_first + Bc" REPLACE "from >= all_first"
  FIND2 "mc_rows[r] = -3.4e38f;" REPLACE2 "mc_rows[r] = 0;")  # else the second pass makes it good
fa_step_mutant(calm_too_long STEPS 5r CAUSE "the fast lane takes a stage whose last keys some queries don't see"
  FIND "to <= all_last" REPLACE "to <= some_last")
fa_step_mutant(calm_one_more STEPS 5r CAUSE "the fast lane takes a stage whose very last key one query doesn't see"
  FIND "to <= all_last" REPLACE "to <= all_last + 1")
fa_step_mutant(calm_again STEPS 5r CAUSE "the fast lane is taken in the second pass too"
  FIND "!exact && from >= " REPLACE "from >= ")
fa_step_mutant(calm_half STEPS 5r CAUSE "the fast lane leaves out a stage's second part"
  FIND "part += Bc) keys(part, true);" REPLACE "part += kStage) keys(part, true);")
fa_step_mutant(calm_twice STEPS 6f FAULT "${in_flight} and ${arrivals} and ${bytes}"
  CAUSE "the fast lane takes a stage's first part twice"
  FIND "keys(part, true)" REPLACE "keys(0, true)")
