// The harness gives stage 3 one tile of queries a call. The stage itself takes a whole head.
#include "stage3_tiled_cpu/attention.hpp"
#include "tests/catch.hpp"
#include "tests/support.hpp"

using namespace fa;

TEST_CASE("Stage 3 takes a whole head in one call, and begins each tile of queries anew") {
  for (const bool causal : {false, true})
    for (const Tile tile : {Tile{16, 32}, Tile{48, 40}, Tile{64, 16}}) {
      Problem p;
      p.Nq = p.Nkv = 150;
      p.d = 64;
      p.causal = causal;
      Inputs inputs = make_inputs(p, "all-low", 3);
      // Scores from -100 in the first tile to -1000 in the last: a maximum, a sum or an output that
      // was left over from the tile before would be far off.
      const Matrix<float> Q = inputs.Q.view().as<float>().head(0, 0);
      for (Index i = 0; i < p.Nq; ++i)
        Q[i][0] *= 0.1f + 0.9f * static_cast<float>(i) / static_cast<float>(p.Nq);
      Output output(p);
      stage3::attention<float>(Q,
                               inputs.K.view().as<const float>().head(0, 0),
                               inputs.V.view().as<const float>().head(0, 0),
                               output.O().as<float>().head(0, 0),
                               output.LSE(),
                               p.scale,
                               p.mask(),
                               tile);
      const OracleCheck check = check_against_oracle(p, expect(p, inputs.view()), output);
      INFO("tile " << tile.Br << " x " << tile.Bc << ", causal " << causal);
      CHECK(check.failure() == "");
    }
}
