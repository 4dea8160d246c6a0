//go:build !cgo

package stores

const hasSQLite = false

func (*Store) sqlite(string, Options) error { panic("check refuses SQLite") }

func TextOfTrigger(error) (text string, ok bool) { return "", false }
