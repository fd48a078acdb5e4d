#include "src/figures/svg.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

namespace lw {
namespace {

constexpr int kLeft = 64, kRight = 16, kTop = 14, kBottom = 44;

double fraction(const Scale& scale, double value) {
  const auto map = [&](double v) { return scale.log ? std::log10(std::max(v, 1e-300)) : v; };
  const double f = (map(value) - map(scale.low)) / (map(scale.high) - map(scale.low));
  return std::clamp(f, -0.02, 1.02);
}

std::string tick_text(double value) {
  if (value >= 1e6 || (value > 0 && value < 1e-4)) return absl::StrFormat("%.0e", value);
  return absl::StrFormat("%g", std::round(value * 1e6) / 1e6);
}

}  // namespace

std::string escape_html(const std::string& text) {
  return absl::StrReplaceAll(
      text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"'", "&#39;"}, {"\"", "&quot;"}});
}

std::vector<double> ticks(const Scale& scale, int about) {
  std::vector<double> all;
  if (scale.log) {
    const double decades = std::log10(scale.high / scale.low);
    const std::vector<double> steps =
        decades < 2.5 ? std::vector<double>{1, 2, 5} : std::vector<double>{1};
    const double stride = std::max(1.0, std::ceil(decades / about));
    for (double e = std::floor(std::log10(scale.low)); e <= std::log10(scale.high); e += stride) {
      for (double step : steps) all.push_back(step * std::pow(10, e));
    }
  } else {
    const double raw = (scale.high - scale.low) / about,
                 unit = std::pow(10, std::floor(std::log10(raw)));
    const double step = unit * (raw / unit <= 1   ? 1
                                : raw / unit <= 2 ? 2
                                : raw / unit <= 5 ? 5
                                                  : 10);
    for (double v = std::ceil(scale.low / step) * step; v <= scale.high * (1 + 1e-9); v += step) {
      all.push_back(v);
    }
  }
  const auto outside = [&](double v) {
    return v < scale.low * (1 - 1e-9) || v > scale.high * (1 + 1e-9);
  };
  all.erase(std::remove_if(all.begin(), all.end(), outside), all.end());
  return all;
}

Chart::Chart(int width, int height, Scale x, Scale y)
    : width_(width), height_(height), x_(x), y_(y) {}

double Chart::px(double x) const { return kLeft + fraction(x_, x) * (width_ - kLeft - kRight); }
double Chart::py(double y) const {
  return height_ - kBottom - fraction(y_, y) * (height_ - kTop - kBottom);
}

void Chart::axes(const std::string& x_title, const std::string& y_title, bool y_percent) {
  const int bottom = height_ - kBottom, right = width_ - kRight;
  for (double v : ticks(x_, 8)) {
    absl::StrAppendFormat(&body_,
                          "<line class='grid' x1='%.1f' x2='%.1f' y1='%d' y2='%d'/>"
                          "<text class='tick' x='%.1f' y='%d' text-anchor='middle'>%s</text>\n",
                          px(v), px(v), kTop, bottom, px(v), bottom + 16, tick_text(v));
  }
  for (double v : ticks(y_, 6)) {
    absl::StrAppendFormat(&body_,
                          "<line class='grid' x1='%d' x2='%d' y1='%.1f' y2='%.1f'/>"
                          "<text class='tick' x='%d' y='%.1f' text-anchor='end'>%s</text>\n",
                          kLeft, right, py(v), py(v), kLeft - 8, py(v) + 4,
                          y_percent ? tick_text(100 * v) + " %" : tick_text(v));
  }
  absl::StrAppendFormat(&body_, "<line class='axis' x1='%d' x2='%d' y1='%d' y2='%d'/>\n", kLeft,
                        right, bottom, bottom);
  absl::StrAppendFormat(&body_,
                        "<text class='title' x='%d' y='%d' text-anchor='middle'>%s</text>\n",
                        (kLeft + right) / 2, height_ - 8, escape_html(x_title));
  absl::StrAppendFormat(&body_,
                        "<text class='title' transform='translate(14 %d) rotate(-90)' "
                        "text-anchor='middle'>%s</text>\n",
                        (kTop + bottom) / 2, escape_html(y_title));
}

void Chart::line(const std::vector<std::pair<double, double>>& points,
                 const std::string& attributes) {
  std::string path;
  for (const auto& [x, y] : points) {
    absl::StrAppendFormat(&path, "%s%.1f %.1f", path.empty() ? "M" : "L", px(x), py(y));
  }
  absl::StrAppendFormat(&body_, "<path fill='none' d='%s' %s/>\n", path, attributes);
}

void Chart::dot(double x, double y, double radius, const std::string& attributes) {
  absl::StrAppendFormat(&body_, "<circle cx='%.1f' cy='%.1f' r='%g' %s/>\n", px(x), py(y), radius,
                        attributes);
}

void Chart::label(double x, double y, const std::string& text, const char* anchor, double dx,
                  double dy) {
  absl::StrAppendFormat(&body_,
                        "<text class='label' x='%.1f' y='%.1f' text-anchor='%s'>%s</text>\n",
                        px(x) + dx, py(y) + dy, anchor, escape_html(text));
}

std::string Chart::svg(const std::string& title) const {
  return absl::StrFormat("<svg viewBox='0 0 %d %d' role='img' aria-label='%s'>\n%s</svg>\n", width_,
                         height_, escape_html(title), body_);
}

}  // namespace lw
