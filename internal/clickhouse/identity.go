package clickhouse

// Identity tells the pool from any that may answer differently: the server, the
// way to it, the database and the user. It holds no password.
func (p *Pool) Identity() string {
	c := p.config
	return c.HTTPScheme + "://" + c.Username + "@" + c.httpAddr() + "/" + c.Database
}
