#pragma once

#include "server/json_text.h"

namespace patchbay {

enum class LogFormat {
  text,
  json,  ///< one object a line: time, level, message, and what else the line knows
};

/// How the program's log is written from now on. Before other threads begin.
void set_log_format(LogFormat format);

/// One line at level info: in text "message key=value ...", else an object. Any thread.
void log_line(LogFormat format, const std::string &message, const Json &fields);

}  // namespace patchbay
