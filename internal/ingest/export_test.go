package ingest

// Gathered is how many rows wait in chunks that are being formed.
func (g *Gate) Gathered() int {
	g.mu.Lock()
	lanes := make([]*lane, 0, len(g.lanes))
	for _, l := range g.lanes {
		lanes = append(lanes, l)
	}
	g.mu.Unlock()
	rows := 0
	for _, l := range lanes {
		l.mu.Lock()
		if l.open != nil {
			rows += l.open.rows
		}
		l.mu.Unlock()
	}
	return rows
}
