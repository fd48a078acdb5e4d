// Figures for people.
#pragma once

#include <string>

#include "tuner_db/time_kind.h"

namespace lw {

std::string micros(double us);             // "12.30 us", "4.560 ms"; "-" when there is none
std::string micros(double us, TimeKind kind);  // "12.30 us (estimated)"; measured is not said
// Beside a time that was not measured: whose results were checked.
std::string_view how_verified(TimeKind kind);
std::string number(double value, int digits = 4);  // so many significant ones
std::string whole(double value);           // "257,108"
std::string percent(double fraction);      // "93.4 %"
std::string byte_size(double bytes);       // "1.5 MiB"
std::string trace_as_line(const std::string& trace);  // steps joined by "; "

}  // namespace lw
