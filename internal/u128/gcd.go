package u128

// GCD returns the greatest common divisor of two numbers, which are at least 1.
func GCD(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
