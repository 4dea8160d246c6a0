package sqlite

import (
	"context"
	"database/sql"
)

// prepared is a connection that prepares what it is to execute more than once. A
// statement executed once is cheaper as it is.
type prepared struct {
	*sql.Conn
	executed map[string]*sql.Stmt // nil after the first time
}

func (p *prepared) exec(ctx context.Context, statement string, args ...any) (sql.Result, error) {
	stmt, again := p.executed[statement]
	if !again {
		if p.executed == nil {
			p.executed = make(map[string]*sql.Stmt)
		}
		p.executed[statement] = nil
		return p.ExecContext(ctx, statement, args...)
	}
	if stmt == nil {
		var err error
		if stmt, err = p.PrepareContext(ctx, statement); err != nil {
			return nil, err
		}
		p.executed[statement] = stmt
	}
	return stmt.ExecContext(ctx, args...)
}

// finalize ends the statements; the connection goes on.
func (p *prepared) finalize() {
	for _, stmt := range p.executed {
		if stmt != nil {
			stmt.Close()
		}
	}
}
