// Runs the real executables as a shell would, and keeps what they print.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace fa::cli {

inline const std::string kStage1 = FA_STAGE1;
inline const std::string kStage2 = FA_STAGE2;
inline const std::string kStage3 = FA_STAGE3;
inline const std::string kStage4 = FA_STAGE4;  // on a device: not one of kStages
inline const std::string kSpoiled = FA_SPOILED_STAGE;
inline const std::vector<std::string> kStages = {kStage1, kStage2, kStage3};
inline const std::string kStage5 = FA_STAGE5;  // the same, and with steps
inline const std::vector<std::string> kCudaStages = {kStage4, kStage5};

/// How a run ended.
struct Ended {
  int exit_code = -1;  // −signal where one ended it
  std::string out;
  std::string err;
  double seconds = 0;

  /// Standard output as JSON; a test that gets no JSON fails.
  nlohmann::json json() const;
};

/// Runs `program` with these arguments; with `flaw` set, for spoiled_stage. `address_space`: a
/// limit in bytes as by ulimit -v, 0: none.
Ended run(const std::string& program,
          const std::vector<std::string>& arguments,
          const std::string& flaw = "",
          double address_space = 0);

/// A folder for one test, removed with all that is in it.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::filesystem::path path() const { return path_; }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  /// The names in it.
  std::vector<std::string> names() const;

 private:
  std::filesystem::path path_;
};

}  // namespace fa::cli
