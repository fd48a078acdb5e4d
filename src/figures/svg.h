// Charts as SVG text: a frame with ticks, and marks placed by data coordinates. Colors are CSS
// variables of the page, so a chart follows its light or dark scheme.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace lw {

struct Scale {
  double low = 0, high = 1;
  bool log = false;
};

class Chart {
 public:
  Chart(int width, int height, Scale x, Scale y);

  // Grid lines and labels; `percent` labels fractions as such.
  void axes(const std::string& x_title, const std::string& y_title, bool y_percent = false);
  // `attributes`: classes, data-* and the like, as HTML.
  void line(const std::vector<std::pair<double, double>>& points, const std::string& attributes);
  void dot(double x, double y, double radius, const std::string& attributes);
  // Text beside a point; `anchor`: start | middle | end.
  void label(double x, double y, const std::string& text, const char* anchor, double dx, double dy);

  std::string svg(const std::string& title) const;
  double px(double x) const;
  double py(double y) const;

 private:
  int width_, height_;
  Scale x_, y_;
  std::string body_;
};

// Text with &, <, > and quotes as HTML needs them.
std::string escape_html(const std::string& text);

// Powers of ten (with 2 and 5 where few) or round steps inside the scale.
std::vector<double> ticks(const Scale& scale, int about);

}  // namespace lw
