#include "common/harness/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

namespace fa {

namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds kQuiet = 1s, kBetween = 200ms;
constexpr int kBarWidth = 30;

void draw(const std::string& what, double share, double seconds) {
  const int filled = static_cast<int>(std::clamp(share, 0.0, 1.0) * kBarWidth);
  fmt::print(stderr,
             "\r{} [{:#<{}}{:.<{}}] {:3.0f} %, {:.0f} s\x1b[K",
             what,
             "",
             filled,
             "",
             kBarWidth - filled,
             100 * share,
             seconds);
  std::fflush(stderr);
}

}  // namespace

Progress::Progress(std::string what) : what_(std::move(what)) {
  if (::isatty(STDERR_FILENO) == 1) drawing_ = std::thread([this] { draw_until_stopped(); });
}

Progress::~Progress() {
  if (!drawing_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  stop_.notify_one();
  drawing_.join();
}

void Progress::draw_until_stopped() {
  const auto start = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  if (stop_.wait_for(lock, kQuiet, [this] { return stopped_; })) return;
  do {
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    draw(what_, share_, elapsed.count());
  } while (!stop_.wait_for(lock, kBetween, [this] { return stopped_; }));
  fmt::print(stderr, "\r\x1b[K");
  std::fflush(stderr);
}

std::function<void(double)> Progress::callback() {
  if (!drawing_.joinable()) return nullptr;
  return [this](double share) { share_ = share; };
}

}  // namespace fa
