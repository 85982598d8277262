// Fibers: one CUDA thread is one fiber, which runs until it must wait for others.
//
// A switch is a call that saves the registers the calling convention asks for and exchanges stacks:
// a few nanoseconds with Boost.Context, some hundred with ucontext, which asks the kernel for the
// signal mask each time. FA_SIMT_UCONTEXT chooses the second, where there is no Boost.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#ifdef FA_SIMT_UCONTEXT
#include <ucontext.h>
#else
#include <boost/context/detail/fcontext.hpp>
#endif

namespace fa::simt {

/// Stacks of equal size, one a fiber, each with a page before it that may not be touched.
class StackPool {
 public:
  StackPool(std::size_t count, std::size_t bytes);
  ~StackPool();
  StackPool(const StackPool&) = delete;
  StackPool& operator=(const StackPool&) = delete;

  std::size_t bytes() const { return bytes_; }
  unsigned char* stack(std::size_t index) const;  // its lowest address

 private:
  std::size_t count_;
  std::size_t bytes_;
  unsigned char* memory_;
};

/// A fiber runs `work(argument)` again and again: each return hands control back as a suspension
/// does, and the next resume calls it anew on the same stack. So the fibers of one block serve the
/// next without being made again.
class Fiber {
 public:
  using Work = void (*)(void*);

  Fiber() = default;
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Prepares a fiber on a stack. Called again, it forgets whatever the fiber was in the middle of,
  /// without running destructors: for threads that wait for what never comes.
  void prepare(unsigned char* stack, std::size_t bytes, Work work, void* argument);

  /// Runs the fiber until it suspends or its work returns. Called from outside any fiber.
  void resume();

  /// Goes back to where resume() was called. Called inside the fiber.
  void suspend();

 private:
  void entered();  // runs on the fiber's own stack, after every switch to it

  Work work_ = nullptr;
  void* argument_ = nullptr;
  unsigned char* stack_ = nullptr;
  std::size_t bytes_ = 0;
#ifdef FA_SIMT_UCONTEXT
  static void run(unsigned high, unsigned low);
  ucontext_t context_{};
  ucontext_t home_{};
#else
  static void run(boost::context::detail::transfer_t from);
  boost::context::detail::fcontext_t context_ = nullptr;
  boost::context::detail::fcontext_t home_ = nullptr;
#endif
  // The address sanitizer keeps what it knows of a stack here while another one is in use.
  void* own_shadow_ = nullptr;
  void* home_shadow_ = nullptr;
  const void* home_stack_ = nullptr;
  std::size_t home_bytes_ = 0;
};

}  // namespace fa::simt
