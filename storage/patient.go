package storage

import "context"

type patientKey struct{}

// Patient reports whether whoever handed over ctx waits for the answer until its
// deadline, even if ctx is cancelled before. An [Engine] does: a caller of it who
// leaves is told so at once or, where the call to the store is for that caller alone,
// when its answer comes. A store may then do without the goroutine that it would need
// to notice.
func Patient(ctx context.Context) bool {
	_, patient := ctx.Deadline()
	return patient && ctx.Value(patientKey{}) != nil
}

// patiently marks a context as one of which Patient is true.
func patiently(ctx context.Context) context.Context {
	return context.WithValue(ctx, patientKey{}, true)
}
