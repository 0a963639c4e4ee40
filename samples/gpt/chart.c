/* chart.c: a curve as an SVG file, drawn by hand: axes, a line, the first and the last value. */
#include <stdio.h>

#include "gpt.h"

enum { WIDE = 640, HIGH = 320, EDGE = 40 };

static double most_of(const float *values, int n) {
    double most = 0;
    for (int i = 0; i < n; i++) most = values[i] > most ? values[i] : most;
    return most > 0 ? most : 1;
}

static double x_of(int i, int n) { return EDGE + (double)i * (WIDE - 2 * EDGE) / (n > 1 ? n - 1 : 1); }

static double y_of(double value, double most) { return HIGH - EDGE - value * (HIGH - 2 * EDGE) / most; }

static void label(FILE *file, double x, double y, double value) {
    fprintf(file, "<text x=\"%.1f\" y=\"%.1f\" font-size=\"11\">%.3f</text>\n", x, y, value);
}

bool gpt_chart(const char *path, const float *losses, int n) {
    FILE *const file = fopen(path, "w");
    if (!file) return false;
    const double most = most_of(losses, n);
    fprintf(file, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\">\n", WIDE,
            HIGH);
    fprintf(file, "<text x=\"%d\" y=\"20\" font-size=\"13\">loss by step, %d steps</text>\n", EDGE, n);
    fprintf(file, "<path d=\"M%d %dV%dH%d\" fill=\"none\" stroke=\"#888\"/>\n", EDGE, EDGE, HIGH - EDGE, WIDE - EDGE);
    fprintf(file, "<polyline fill=\"none\" stroke=\"#15c\" points=\"");
    for (int i = 0; i < n; i++) fprintf(file, "%.1f,%.1f ", x_of(i, n), y_of(losses[i], most));
    fprintf(file, "\"/>\n");
    if (n) label(file, x_of(0, n) + 4, y_of(losses[0], most) - 4, losses[0]);
    if (n) label(file, x_of(n - 1, n) - 30, y_of(losses[n - 1], most) - 6, losses[n - 1]);
    fprintf(file, "</svg>\n");
    return !fclose(file);
}
