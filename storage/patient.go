package storage

import "context"

type patientKey struct{}

// Patient reports whether who handed over ctx waits for the answer until its
// deadline, even if it is cancelled before. An [Engine] does: the callers of it
// that leave are told so at once, or when the answer comes if it is for one caller
// alone. A store may then do without the goroutine that it would need to notice.
func Patient(ctx context.Context) bool {
	_, patient := ctx.Deadline()
	return patient && ctx.Value(patientKey{}) != nil
}

// patiently marks a context as one of which Patient is true.
func patiently(ctx context.Context) context.Context {
	return context.WithValue(ctx, patientKey{}, true)
}
