// One line on a terminal that says how far a long computation is.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace fa {

/// Draws on standard error, from the first second on, and only if that is a terminal. The line
/// overwrites itself and is gone when the object is.
///
/// A thread of its own draws it, so that the line lives even while one long task reports nothing,
/// and so that reporting costs the work no more than a store.
class Progress {
 public:
  explicit Progress(std::string what);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// For work to report the share done, 0..1, from any thread. Empty where there is nothing to draw
  /// on.
  std::function<void(double)> callback();

 private:
  void draw_until_stopped();

  const std::string what_;
  std::atomic<double> share_{0};
  std::mutex mutex_;
  std::condition_variable stop_;
  bool stopped_ = false;
  std::thread drawing_;  // not joinable: there is no terminal
};

}  // namespace fa
