//go:build !cgo

package serve

const hasSQLite = false

func (*opened) sqlite(string) error { panic("checkStore refuses SQLite") }

func textOfTrigger(error) (text string, ok bool) { return "", false }
