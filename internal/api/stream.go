package api

import (
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/wavehouse/wavehouse/internal/record"
	"github.com/wavehouse/wavehouse/internal/stream"
	"github.com/wavehouse/wavehouse/internal/telemetry"
)

// stream sends live rows: GET /v1/stream?table=.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, c *request) error {
	token := c.query.Get("token")
	r = withoutToken(r, c)
	if err := s.identify(r, c, token); err != nil {
		return err
	}
	name, err := c.tableName()
	if err != nil {
		return err
	}
	telemetry.Add(r.Context(), slog.String("table", name))
	if _, err := c.identity.SelectGrant(c.settings.Policy, name); err != nil {
		return err
	}
	if _, err := s.table(r.Context(), c, name, c.settings.Policy.SelectsAll); err != nil {
		return err
	}
	since, err := sinceParameter(c)
	if err != nil {
		return err
	}
	options, err := renderOptions(c)
	if err != nil {
		return err
	}
	position, hasPosition, err := lastEventID(r, c)
	if err != nil {
		return err
	}
	release, err := s.Answers.reserve(r.Context(), c.tenant, streamBytes)
	if err != nil {
		return err
	}
	defer release()
	config := c.settings.Config.Stream
	subscription := stream.Subscription{
		Tenant: c.tenant, Table: name, LastEventID: position, HasLastEventID: hasPosition, Since: since,
		Keepalive: s.keepalive(c), GapWindow: config.GapWindow,
		MaxSubscribers: config.MaxSubscribers, Expires: c.identity.Expires, Render: options,
		Grant: s.streamGrant(r.Context(), c, name),
	}
	unpaced(w)
	return s.Streams.Serve(w, r, subscription)
}

// keepalive reads the rhythm of keepalives from the current snapshot.
func (s *Server) keepalive(c *request) func() (time.Duration, int) {
	return func() (time.Duration, int) {
		config := c.settings.Config.Stream
		if now, err := s.Settings.Get(c.tenant); err == nil {
			config = now.Config.Stream
		}
		return config.KeepaliveInterval, config.KeepaliveBuckets
	}
}

// withoutToken takes the token out of the URL before anything can log it.
func withoutToken(r *http.Request, c *request) *http.Request {
	if !c.query.Has("token") {
		return r
	}
	c.query.Del("token")
	clone := *r
	url := *r.URL
	url.RawQuery = c.query.Encode()
	clone.URL, clone.RequestURI = &url, url.RequestURI()
	return &clone
}

// lastEventID is where the stream goes on. The header wins over the parameter,
// which is for those who cannot set one: an EventSource that is opened anew
// has a later id only when it comes back by itself. Clients spell the parameter in
// many ways (lastEventId, Last-Event-ID); each counts, and two are one too many.
func lastEventID(r *http.Request, c *request) (id string, ok bool, err error) {
	if ids := r.Header["Last-Event-Id"]; len(ids) > 0 && ids[len(ids)-1] != "" {
		return ids[len(ids)-1], true, nil
	}
	spelled := url.Values{}
	for name, values := range c.query {
		if strings.ToLower(spelling.Replace(name)) == "lasteventid" {
			spelled["last_event_id"] = append(spelled["last_event_id"], values...)
		}
	}
	return one(spelled, "last_event_id")
}

var spelling = strings.NewReplacer("-", "", "_", "", " ", "")

func sinceParameter(c *request) (time.Time, error) {
	value, _, err := one(c.query, "since")
	if err != nil || value == "" {
		return time.Time{}, err
	}
	since, err := time.Parse(time.RFC3339Nano, value)
	if err != nil {
		return time.Time{}, problem(http.StatusBadRequest, "query_string.invalid", "since must be an RFC 3339 time")
	}
	if since.Before(time.Unix(0, 0)) {
		return time.Unix(0, 0), nil // before everything, as no time at all is now
	}
	return since, nil
}

func renderOptions(c *request) (record.RenderOptions, error) {
	value, err := oneOf(c.query, int64Parameter, "number", "string")
	return record.RenderOptions{Int64AsString: value == "string"}, err
}
