#include "common/simt/site.hpp"

#include <fmt/format.h>

#include <mutex>
#include <vector>

namespace fa::simt {

namespace {
std::mutex mutex;
std::vector<std::string>& files() {
  static std::vector<std::string> names{"?"};
  return names;
}
}  // namespace

SiteId site_of_file(const char* file) {
  const std::lock_guard<std::mutex> lock(mutex);
  std::vector<std::string>& names = files();
  std::size_t number = 1;
  while (number < names.size() && names[number] != file) ++number;
  if (number == names.size()) names.emplace_back(file);
  return static_cast<SiteId>(number << 20);
}

std::string name_of_site(SiteId site) {
  const std::lock_guard<std::mutex> lock(mutex);
  std::string name = files()[site >> 20];
#ifdef FA_SIMT_SOURCE_ROOT
  const std::string root = FA_SIMT_SOURCE_ROOT "/";
  if (name.compare(0, root.size(), root) == 0) name.erase(0, root.size());
#endif
  while (name.compare(0, 3, "../") == 0) name.erase(0, 3);  // ccache's CCACHE_BASEDIR makes these
  return fmt::format("{}:{}", name, line_of_site(site));
}

}  // namespace fa::simt
