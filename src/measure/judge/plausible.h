// Can this time be true? A kernel that was measured may have forged what its process reports, and who
// reports it may have made it up.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>


namespace lw {

struct Program;
struct Target;

// No run of the program on `threads` cores of the target is shorter, in microseconds: the operations
// that it requires (src/expr/work/work.h) at the rate of the best instruction of any type, twice
// that for what the description may not know, at 8 GHz. 0 where the target states no rates.
double impossible_below_us(const Program& program, const Target& target, int threads);

// The shortest of the samples, if it is below that; 0: none is.
double impossible_sample(const std::vector<double>& samples_us, double least_us);
// That a time is below it, in a sentence that begins with these words wherever it is said.
inline constexpr std::string_view kImpossibleTime = "impossible time";
std::string describe_impossible(double us, double least_us);

// Whether a call that claims `claimed_us` can have cost its process `cpu_us` of processor time on
// `threads` threads together, with the message there and back (20 us) and threads that wait
// spinning.
bool fits_processor_time(double claimed_us, double cpu_us, int threads);

// Processor time of a process so far in microseconds, of all its threads, by the system's account;
// negative: there is no such process.
double processor_us(pid_t pid);

}  // namespace lw
