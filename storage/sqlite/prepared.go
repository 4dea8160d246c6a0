package sqlite

import (
	"context"
	"database/sql"
)

// prepared is a connection that prepares what it is to execute more than once. A
// statement executed once is cheaper as it is.
type prepared struct {
	*sql.Conn
	executed []execution // of the few statements there are
}

type execution struct {
	statement string
	stmt      *sql.Stmt // nil after the first time
}

func (p *prepared) exec(ctx context.Context, statement string, args ...any) (sql.Result, error) {
	e := p.find(statement)
	if e == nil {
		p.executed = append(p.executed, execution{statement: statement})
		return p.ExecContext(ctx, statement, args...)
	}
	if e.stmt == nil {
		var err error
		if e.stmt, err = p.PrepareContext(ctx, statement); err != nil {
			return nil, err
		}
	}
	return e.stmt.ExecContext(ctx, args...)
}

func (p *prepared) find(statement string) *execution {
	for i := range p.executed {
		if p.executed[i].statement == statement {
			return &p.executed[i]
		}
	}
	return nil
}

// finalize ends the statements; the connection goes on.
func (p *prepared) finalize() {
	for _, e := range p.executed {
		if e.stmt != nil {
			e.stmt.Close()
		}
	}
}
