package insert

// Watched is how many tables are remembered for callers that wait.
func (w *Worker) Watched() int {
	w.watches.mu.Lock()
	defer w.watches.mu.Unlock()
	return len(w.watches.topics)
}
