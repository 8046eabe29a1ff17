package clickhouse

// Connections identifies what pools share.
func (p *Pool) Connections() any { return p.core }

// NativeOpen says whether the pool keeps native connections now.
func (p *Pool) NativeOpen() bool {
	p.core.native.mu.Lock()
	defer p.core.native.mu.Unlock()
	return p.core.native.conn != nil
}

// Secured identifies the TLS settings of a pool.
func (p *Pools) Secured() int { return len(p.files.now) }
