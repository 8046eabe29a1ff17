package api

import (
	"crypto/sha256"
	"errors"
	"log/slog"
	"net/http"

	"github.com/wavehouse/wavehouse/internal/clickhouse"
	"github.com/wavehouse/wavehouse/internal/query"
	"github.com/wavehouse/wavehouse/internal/telemetry"
)

// maxResult bounds a result, in bytes.
const maxResult = 64 << 20

// query answers a structured query: POST /v1/query?table=.
func (s *Server) query(w http.ResponseWriter, r *http.Request, c *request) error {
	addVary(w.Header(), "Accept")
	if err := s.identify(r, c, ""); err != nil {
		return err
	}
	name, err := c.tableName()
	if err != nil {
		return err
	}
	telemetry.Add(r.Context(), slog.String("table", name))
	grant, err := c.identity.SelectGrant(c.settings.Policy, name)
	if err != nil {
		return err
	}
	table, err := s.table(r.Context(), c, name, c.settings.Policy.SelectsAll)
	if err != nil {
		return err
	}
	body, release, err := s.bodies.read(w, r, c.tenant, maxDocument)
	if err != nil {
		return err
	}
	defer release()
	ended, err := s.admitQuery(w, c)
	if err != nil {
		return err
	}
	defer ended()
	as, err := rowsAccepted(r.Header)
	if err != nil {
		return err
	}
	bound := s.bindAgain(r, c, grant, name, table.Record)
	w = discreetly(w, bound.HidesRows())
	who := s.audienceOf(c, table, grant)
	joined, err := s.wantsPosition(c)
	if err != nil {
		return err
	}
	now := s.Now()
	question := asked{
		tenant: c.tenant, settings: c.settings.Hash, table: table, grant: bound.Fingerprint(), format: as.format,
		second: now.Unix(), document: sha256.Sum256(body),
	}
	if !joined {
		if done, err := s.answerKnown(w, r, question, who); done {
			return err
		}
	}
	document, err := query.Parse(body)
	if err != nil {
		return err
	}
	catalogue, loaded := s.Schemas.Catalogue(c.tenant)
	if !loaded {
		return schemaNotLoaded()
	}
	statement, err := query.Build(document, table, bound, query.Options{
		Now: now, BucketSeconds: int(c.settings.Config.Query.TimestampBucket.Seconds()),
		DefaultMaxRows: c.settings.Config.Query.DefaultMaxRows, Zone: catalogue.Zone, Format: as.format, Ahead: as.format.Records(),
		Cursors: s.Cursors, Tenant: c.tenant.String(),
	})
	if err != nil {
		return c.refused(err)
	}
	pool, err := s.Pools.Get(c.tenant)
	if err != nil {
		return err
	}
	at, err := s.Answers.begin(r.Context(), c.tenant)
	if err != nil {
		return err
	}
	defer at.end()
	limitTime(statement.Settings, pool)
	c.countWhole(statement.Settings)
	selection := clickhouse.Request{
		SQL: statement.SQL, Params: statement.Params, Settings: statement.Settings, External: statement.External, ReadOnly: true,
	}
	q := read{
		pool: pool, request: selection, as: as, document: question.document, rows: capOf(statement, as.format),
		grant: bound.Fingerprint(), depends: s.tablesOf(pool, name), who: who, untold: who.none,
	}
	if joined {
		return s.answerJoined(w, r, c, at, name, q)
	}
	key := q.key(c.tenant)
	s.known.Put(question, key)
	return s.answerRead(w, r, c, at, q, key)
}

// refused is the answer to a document that asks for what the role may not
// have: after a bad token it is the token that is at fault.
func (c *request) refused(err error) error {
	if e, ok := errors.AsType[*query.Error](err); ok && e.Code != query.CodeInvalid && c.identity.TokenErr != nil {
		return c.identity.Deny(err)
	}
	return err
}
