// A program compiled for an instruction set that this CPU may not have says so (exit 77) instead of
// dying. This file alone is compiled for any CPU, and runs before all other code.
#include <cstdio>
#include <cstdlib>

#if defined(__x86_64__) && defined(__GNUC__)
__attribute__((constructor(101))) static void need_instruction_set() {
  __builtin_cpu_init();
  if (__builtin_cpu_supports(FA_INSTRUCTION_SET)) return;
  std::puts("This CPU has no " FA_INSTRUCTION_SET ": skipped.");
  std::_Exit(77);
}
#endif
