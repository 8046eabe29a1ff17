package clickhouse

// Connections identifies what pools share.
func (p *Pool) Connections() any { return p.core }

// InAll is how many connections a pool for so many statements may have.
func InAll(open int) int { return connections(open) }

// Secured identifies the TLS settings of a pool.
func (p *Pools) Secured() int { return len(p.files.now) }

// MaxOpenConns is how many statements the pool runs at once.
func (p *Pool) MaxOpenConns() int { return p.core.size.open }
