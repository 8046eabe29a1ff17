package clickhouse

// Connections identifies what pools share.
func (p *Pool) Connections() any { return p.core }

// Secured identifies the TLS settings of a pool.
func (p *Pools) Secured() int { return len(p.files.now) }
