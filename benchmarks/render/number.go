package main

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// number formats x with three significant digits and commas.
func number(x float64) string {
	if x < 1000 {
		return strconv.FormatFloat(x, 'g', 3, 64)
	}
	unit := math.Pow(10, math.Floor(math.Log10(x))-2)
	digits := strconv.FormatInt(int64(math.Round(x/unit)*unit), 10)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

func latency(d time.Duration) string {
	switch {
	case d == 0:
		return ""
	case d < time.Millisecond:
		return fmt.Sprintf("%d µs", d.Round(time.Microsecond).Microseconds())
	}
	return fmt.Sprintf("%.3g ms", float64(d)/1e6)
}
