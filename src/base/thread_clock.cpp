#include "base/thread_clock.h"

#include <pthread.h>
#include <unistd.h>

namespace patchbay {

ThreadClock ThreadClock::of_this_thread() {
  clockid_t clock = CLOCK_THREAD_CPUTIME_ID;
  (void)pthread_getcpuclockid(pthread_self(), &clock);
  return {gettid(), clock};
}

std::chrono::nanoseconds ThreadClock::now() const {
  timespec time{};
  (void)clock_gettime(clock_, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

}  // namespace patchbay
