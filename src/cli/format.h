// Figures for people.
#pragma once

#include <string>

namespace lw {

std::string micros(double us);             // "12.30 us", "4.560 ms"; "-" when there is none
std::string micros(double us, bool estimated);  // "12.30 us (estimated)"
std::string number(double value, int digits = 4);  // so many significant ones
std::string percent(double fraction);      // "93.4 %"
std::string byte_size(double bytes);       // "1.5 MiB"
std::string trace_as_line(const std::string& trace);  // steps joined by "; "

}  // namespace lw
