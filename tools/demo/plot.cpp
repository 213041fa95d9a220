// One panel with two axes, told apart by colour and legend; two panels would be harder to compare.
#include "tools/demo/plot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>

namespace heddle::demo {
namespace {

constexpr double width = 800, height = 480;
constexpr double left = 78, right = 722, top = 64, bottom = 408;
constexpr const char* loss_colour = "#1f5fa8";
constexpr const char* accuracy_colour = "#c2570c";

std::string escaped(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    if (c == '&') {
      safe += "&amp;";
    } else if (c == '<') {
      safe += "&lt;";
    } else if (c == '>') {
      safe += "&gt;";
    } else {
      safe += c;
    }
  }
  return safe;
}

/// Values [from, to] on pixels [at_from, at_to].
struct Scale {
  double from, to, at_from, at_to;
  [[nodiscard]] double operator()(double value) const {
    const double share = to > from ? (value - from) / (to - from) : 0.5;
    return at_from + std::clamp(share, 0.0, 1.0) * (at_to - at_from);
  }
};

/// 1, 2 or 5 times a power of ten, so that at most `ticks_max` steps cover `range`.
double tick_step(double range, int ticks_max) {
  const double raw = std::max(range / ticks_max, 1e-9);
  const double power = std::pow(10, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= raw * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

class Drawing {
 public:
  void line(double x1, double y1, double x2, double y2, const char* colour) {
    add("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\"/>\n", x1, y1,
        x2, y2, colour);
  }
  void text(double x, double y, const char* anchor, const char* colour, const std::string& words,
            int size = 13) {
    add("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" fill=\"{}\" "
        "font-size=\"{}\">{}</text>\n",
        x, y, anchor, colour, size, escaped(words));
  }
  void upright_text(double x, double y, const char* colour, const std::string& words) {
    add("<text transform=\"translate({:.1f},{:.1f}) rotate(-90)\" text-anchor=\"middle\" "
        "fill=\"{}\" font-size=\"13\">{}</text>\n",
        x, y, colour, escaped(words));
  }
  void curve(std::span<const EpochReport> epochs, const char* colour,
             const std::function<std::pair<double, double>(const EpochReport&)>& point) {
    add("<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"2\" points=\"", colour);
    for (const EpochReport& epoch : epochs) {
      const auto [x, y] = point(epoch);
      add("{:.1f},{:.1f} ", x, y);
    }
    body_ += "\"/>\n";
    for (const EpochReport& epoch : epochs) {
      const auto [x, y] = point(epoch);
      add("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.5\" fill=\"{}\"/>\n", x, y, colour);
    }
  }
  [[nodiscard]] std::string finish() const {
    return fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
        "height=\"{1}\" font-family=\"Helvetica, Arial, sans-serif\">\n"
        "<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n{2}</svg>\n",
        width, height, body_);
  }

 private:
  template <class... T>
  void add(fmt::format_string<T...> format, T&&... values) {
    fmt::format_to(std::back_inserter(body_), format, std::forward<T>(values)...);
  }
  std::string body_;
};

void draw_epoch_axis(Drawing& drawing, const Scale& x) {
  const double step = std::max(1.0, tick_step(x.to - x.from, 10));
  for (double tick = std::ceil(x.from / step) * step; tick <= x.to; tick += step) {
    drawing.line(x(tick), bottom, x(tick), bottom + 5, "#444");
    drawing.text(x(tick), bottom + 21, "middle", "#222", fmt::format("{:.0f}", tick));
  }
  drawing.text((left + right) / 2, bottom + 45, "middle", "#222", "epoch");
}

/// One tick per 1, 2 and 5 of each decade; the scale is in log10.
void draw_loss_axis(Drawing& drawing, const Scale& y) {
  for (double decade = std::floor(y.from); decade <= y.to; ++decade) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double tick = decade + std::log10(factor);
      if (tick < y.from - 1e-9 || tick > y.to + 1e-9) continue;
      drawing.line(left, y(tick), right, y(tick), "#e4e4e4");
      drawing.line(left - 5, y(tick), left, y(tick), "#444");
      drawing.text(left - 9, y(tick) + 4, "end", loss_colour,
                   fmt::format("{:g}", factor * std::pow(10, decade)));
    }
  }
  drawing.upright_text(22, (top + bottom) / 2, loss_colour,
                       "training loss (mean cross-entropy, log scale)");
}

void draw_accuracy_axis(Drawing& drawing, const Scale& y) {
  const double step = tick_step(y.to - y.from, 6);
  for (double tick = std::ceil(y.from / step - 1e-9) * step; tick <= y.to + 1e-9; tick += step) {
    drawing.line(right, y(tick), right + 5, y(tick), "#444");
    drawing.text(right + 9, y(tick) + 4, "start", accuracy_colour,
                 fmt::format("{:g}%", std::round(tick * 1000) / 10));
  }
  drawing.upright_text(width - 14, (top + bottom) / 2, accuracy_colour, "test accuracy");
}

double log_loss(const EpochReport& epoch) { return std::log10(std::max(epoch.loss, 1e-9F)); }

/// The log10 of the 1, 2 or 5 times a power of ten next below (or above) 10^x, so that an axis
/// always ends at ticks.
double tick_below(double x) {
  const double rest = x - std::floor(x);
  for (const double factor : {5.0, 2.0}) {
    if (rest >= std::log10(factor)) return std::floor(x) + std::log10(factor);
  }
  return std::floor(x);
}
double tick_above(double x) {
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (x <= std::floor(x) + std::log10(factor)) return std::floor(x) + std::log10(factor);
  }
  return std::floor(x) + 1;
}

}  // namespace

std::string plot_svg(std::span<const EpochReport> epochs, const std::string& title) {
  Drawing drawing;
  drawing.text(width / 2, 26, "middle", "#222", title, 17);
  // A diverged run has losses that are NaN or infinite; these cannot be drawn.
  std::vector<EpochReport> drawn;
  std::ranges::copy_if(epochs, std::back_inserter(drawn), [](const EpochReport& epoch) {
    return std::isfinite(epoch.loss) && std::isfinite(epoch.test_accuracy);
  });
  if (drawn.empty()) {
    drawing.text(width / 2, height / 2, "middle", "#222", "no finite losses");
    return drawing.finish();
  }

  const auto [low, high] = std::ranges::minmax(drawn, {}, log_loss);
  const double accuracy_low =
      std::ranges::min(drawn, {}, &EpochReport::test_accuracy).test_accuracy;
  const Scale x{1, std::max(drawn.back().epoch, 2) * 1.0, left + 8, right - 8};
  const Scale loss{tick_below(log_loss(low)), tick_above(log_loss(high)), bottom, top};
  const Scale accuracy{std::max(0.0, std::floor(accuracy_low * 20) / 20), 1.0, bottom, top};

  draw_loss_axis(drawing, loss);
  draw_accuracy_axis(drawing, accuracy);
  draw_epoch_axis(drawing, x);
  drawing.line(left, top, left, bottom, "#444");
  drawing.line(right, top, right, bottom, "#444");
  drawing.line(left, bottom, right, bottom, "#444");
  drawing.curve(drawn, loss_colour,
                [&](const EpochReport& e) { return std::pair(x(e.epoch), loss(log_loss(e))); });
  drawing.curve(drawn, accuracy_colour, [&](const EpochReport& e) {
    return std::pair(x(e.epoch), accuracy(e.test_accuracy));
  });
  drawing.text(width / 2 - 12, 48, "end", loss_colour,
               fmt::format("\u25cf training loss {:.4f}", drawn.back().loss));
  drawing.text(width / 2 + 12, 48, "start", accuracy_colour,
               fmt::format("\u25cf test accuracy {:.2f}%", 100 * drawn.back().test_accuracy));
  return drawing.finish();
}

}  // namespace heddle::demo
