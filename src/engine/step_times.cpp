#include "engine/step_times.h"

namespace patchbay {

void count_step(StepTimes &times, double ms) {
  size_t i_class = 0;
  for (double most = StepTimes::k_first_class_ms; ms > most && i_class + 1 < StepTimes::k_n_classes;
       most *= 2) {
    ++i_class;
  }
  ++times.n_steps_by_length.at(i_class);
}

}  // namespace patchbay
