#include "engine/step_times.h"

namespace patchbay {

void count_step(StepTimes &times, double ms) {
  size_t i_class = 0;
  double most_ms = StepTimes::k_first_class_ms;
  while (ms > most_ms && i_class + 1 < StepTimes::k_n_classes) {
    ++i_class;
    most_ms *= 2;
  }
  ++times.n_steps_by_length.at(i_class);
}

}  // namespace patchbay
