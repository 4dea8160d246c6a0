//go:build !cgo

package serve

const hasSQLite = false

func (*opened) sqlite(string) error { panic("CheckStore refuses SQLite") }

func textOfTrigger(error) (text string, ok bool) { return "", false }
