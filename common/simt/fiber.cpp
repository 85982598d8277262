#include "common/simt/fiber.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <new>

#if defined(__SANITIZE_ADDRESS__)
#define FA_SIMT_ASAN
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FA_SIMT_ASAN
#endif
#endif
#ifdef FA_SIMT_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace fa::simt {

namespace {
// Tell the address sanitizer that the stack changes.
void leave_for([[maybe_unused]] void** own_shadow,
               [[maybe_unused]] const void* stack,
               [[maybe_unused]] std::size_t bytes) {
#ifdef FA_SIMT_ASAN
  __sanitizer_start_switch_fiber(own_shadow, stack, bytes);
#endif
}
void arrive([[maybe_unused]] void* own_shadow,
            [[maybe_unused]] const void** from_stack,
            [[maybe_unused]] std::size_t* from_bytes) {
#ifdef FA_SIMT_ASAN
  __sanitizer_finish_switch_fiber(own_shadow, from_stack, from_bytes);
#endif
}
}  // namespace

// ---------------------------------------------------------------------------------------------
StackPool::StackPool(std::size_t count, std::size_t bytes) : count_(count) {
  const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  bytes_ = (bytes + page - 1) / page * page;
  void* memory = mmap(nullptr,
                      count_ * (bytes_ + page),
                      PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                      -1,
                      0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  memory_ = static_cast<unsigned char*>(memory);
  for (std::size_t i = 0; i < count_; ++i) mprotect(memory_ + i * (bytes_ + page), page, PROT_NONE);
}

StackPool::~StackPool() {
  const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
#ifdef FA_SIMT_ASAN
  for (std::size_t i = 0; i < count_; ++i) ASAN_UNPOISON_MEMORY_REGION(stack(i), bytes_);
#endif
  munmap(memory_, count_ * (bytes_ + page));
}

unsigned char* StackPool::stack(std::size_t index) const {
  const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return memory_ + index * (bytes_ + page) + page;
}

// ---------------------------------------------------------------------------------------------
void Fiber::entered() { arrive(own_shadow_, &home_stack_, &home_bytes_); }

#ifdef FA_SIMT_UCONTEXT

void Fiber::run(unsigned high, unsigned low) {
  Fiber* self =
      reinterpret_cast<Fiber*>((static_cast<std::uintptr_t>(high) << 32) | std::uintptr_t{low});
  self->entered();
  for (;;) {
    self->work_(self->argument_);
    self->suspend();
  }
}

void Fiber::prepare(unsigned char* stack, std::size_t bytes, Work work, void* argument) {
  work_ = work, argument_ = argument, stack_ = stack, bytes_ = bytes, own_shadow_ = nullptr;
#ifdef FA_SIMT_ASAN
  ASAN_UNPOISON_MEMORY_REGION(stack, bytes);
#endif
  getcontext(&context_);
  context_.uc_stack.ss_sp = stack;
  context_.uc_stack.ss_size = bytes;
  context_.uc_link = nullptr;
  const std::uintptr_t self = reinterpret_cast<std::uintptr_t>(this);
  makecontext(&context_,
              reinterpret_cast<void (*)()>(&Fiber::run),
              2,
              static_cast<unsigned>(self >> 32),
              static_cast<unsigned>(self));
}

void Fiber::resume() {
  leave_for(&home_shadow_, stack_, bytes_);
  swapcontext(&home_, &context_);
  arrive(home_shadow_, nullptr, nullptr);
}

void Fiber::suspend() {
  leave_for(&own_shadow_, home_stack_, home_bytes_);
  swapcontext(&context_, &home_);
  entered();
}

#else

void Fiber::run(boost::context::detail::transfer_t from) {
  Fiber* self = static_cast<Fiber*>(from.data);
  self->home_ = from.fctx;
  self->entered();
  for (;;) {
    self->work_(self->argument_);
    self->suspend();
  }
}

void Fiber::prepare(unsigned char* stack, std::size_t bytes, Work work, void* argument) {
  work_ = work, argument_ = argument, stack_ = stack, bytes_ = bytes, own_shadow_ = nullptr;
#ifdef FA_SIMT_ASAN
  ASAN_UNPOISON_MEMORY_REGION(stack, bytes);
#endif
  context_ = boost::context::detail::make_fcontext(stack + bytes, bytes, &Fiber::run);
}

void Fiber::resume() {
  leave_for(&home_shadow_, stack_, bytes_);
  context_ = boost::context::detail::jump_fcontext(context_, this).fctx;
  arrive(home_shadow_, nullptr, nullptr);
}

void Fiber::suspend() {
  leave_for(&own_shadow_, home_stack_, home_bytes_);
  home_ = boost::context::detail::jump_fcontext(home_, nullptr).fctx;
  entered();
}

#endif

}  // namespace fa::simt
