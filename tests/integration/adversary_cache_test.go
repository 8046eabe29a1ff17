package integration

import (
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	cachePolicy = `{"default_role":"public","tables":{"pages":{
		"public":{"select":{"allow_columns":["event_id","page"]}},
		"viewer":{"select":{"deny_columns":["secret"],"max_rows":1}},
		"analyst":{"select":{"filter":{"org":{"_eq":"{{ jwt.org }}"}}}},
		"writer":{"select":{"filter":{"org":{"_in":"{{ jwt.org }}"}},"denied_aggregations":["max"]}}}}}`
	cachedRows = `INSERT INTO pages (event_id, page, org, secret, n) VALUES ('1','/1','birch','s1',9007199254740993), ('2','/2','cedar','s2',2), ('3','/3','birch','s3',3), ('4','/4','','s4',4)`
)

// reader is a caller and how the caller wants to be answered.
type reader struct {
	name    string
	headers []string
}

func readers(t *testing.T) []reader {
	t.Helper()
	var all []reader
	for name, headers := range map[string][]string{
		"nobody": nil, "operator": {"X-Operator-Key", operatorKey}, "admin": as(t, "admin"), "viewer": as(t, "viewer"), "unknown": as(t, "nosuchrole"),
		"birch": of(t, "analyst", jwt.MapClaims{"org": "birch"}), "cedar": of(t, "analyst", jwt.MapClaims{"org": "cedar"}), "hollow": of(t, "analyst", nil), "empty": of(t, "analyst", jwt.MapClaims{"org": ""}),
		"both": of(t, "writer", jwt.MapClaims{"org": []string{"birch", "cedar"}}), "listed birch": of(t, "writer", jwt.MapClaims{"org": []string{"birch"}}),
		"one text": of(t, "writer", jwt.MapClaims{"org": "birch,cedar"}), "forged": {"Authorization", "Bearer " + signed(t, jwt.SigningMethodHS256, []byte("guess"), jwt.MapClaims{"role": "admin"})},
	} {
		all = append(all, reader{name, headers}, reader{name + ", CSV", append([]string{"Accept", "text/csv"}, headers...)}, reader{name + ", NDJSON", append([]string{"Accept", "application/x-ndjson"}, headers...)})
	}
	return all
}

// One document asked by everyone at once, again and again, is answered to each
// as it is to who asks it alone on an empty cache.
func TestAdversaryOneQuestionOfManyCallers(t *testing.T) {
	t.Parallel()
	s := seeded(t, options{policies: cachePolicy, logLevel: "error"})
	s.ch.Exec(t, cachedRows)
	documents := []string{
		`{"select_all":true,"order_by":[{"column":"event_id"}]}`, `{"select_all":true,"int64":"string","order_by":[{"column":"event_id"}]}`,
		`{"columns":["event_id","page"],"order_by":[{"column":"event_id"}]}`, `{"aggregations":[{"fn":"count","alias":"c"}]}`,
		`{"aggregations":[{"fn":"max","column":"secret","alias":"c"}]}`, `{"columns":["event_id"],"filters":[{"column":"org","op":"neq","value":"x"}],"order_by":[{"column":"event_id"}]}`,
		`{"columns":["event_id"],"filters":[{"column":"event_id","op":"in","value":["1","2","4"]}],"order_by":[{"column":"event_id"}]}`,
	}
	type question struct {
		reader
		document string
	}
	alone := map[string]answer{}
	var questions []question
	for _, r := range readers(t) {
		for _, document := range documents {
			require.Equal(t, http.StatusOK, s.opsSQL("ALTER TABLE pages MODIFY COMMENT '"+r.name+"'").status) // empties the cache
			a := s.query("pages", document, r.headers...)
			assert.NotEqual(t, "HIT", a.header.Get("X-Cache"), "the cache was emptied")
			alone[r.name+document] = a
			questions = append(questions, question{r, document})
		}
	}
	assert.Equal(t, "[\n{\"c\":0}\n]\n", alone["hollow"+documents[3]].body)
	assert.Equal(t, "[\n{\"c\":0}\n]\n", alone["empty"+documents[3]].body)
	assert.Equal(t, "[\n{\"c\":0}\n]\n", alone["one text"+documents[3]].body)
	assert.NotContains(t, alone["nobody"+documents[0]].body, "s1")
	assert.NotContains(t, alone["birch"+documents[0]].body, "s2")

	tags := make(chan string, 10_000)
	var all sync.WaitGroup
	for worker := range 6 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(uint64(worker), 7))
			for _, i := range r.Perm(len(questions)) {
				q := questions[i]
				a, err := s.try(http.MethodPost, "/v1/query?table=pages", strings.NewReader(q.document), q.headers...)
				if !assert.NoError(t, err) {
					return
				}
				want := alone[q.name+q.document]
				assert.Equal(t, want.status, a.status, "%s: %s", q.name, q.document)
				assert.Equal(t, want.header.Get("Content-Type"), a.header.Get("Content-Type"), "%s: %s", q.name, q.document)
				if a.status == http.StatusOK {
					assert.Equal(t, want.body, a.body, "%s, %s: %s", q.name, a.header.Get("X-Cache"), q.document)
					if tag := a.header.Get("ETag"); tag != "" {
						tags <- tag
					}
				}
			}
		})
	}
	all.Wait()
	close(tags)
	// A tag of another's answer is no way to learn that one's own is the same.
	distinct := map[string]bool{}
	for tag := range tags {
		distinct[tag] = true
	}
	var list []string
	for tag := range distinct {
		list = append(list, tag)
	}
	require.Greater(t, len(list), 10)
	for _, r := range readers(t) {
		a := s.query("pages", documents[0], append([]string{"If-None-Match", strings.Join(list, ", ")}, r.headers...)...)
		if want := alone[r.name+documents[0]]; a.status == http.StatusNotModified {
			assert.Contains(t, list, a.header.Get("ETag"))
			assert.Empty(t, a.body)
			assert.Equal(t, http.StatusOK, want.status)
		} else {
			assert.Equal(t, want.status, a.status, r.name)
		}
	}
}

// An edited policy is not answered from what was cached under another.
func TestAdversaryEditsAndTheCache(t *testing.T) {
	t.Parallel()
	s := seeded(t, options{policies: cachePolicy, logLevel: "error"})
	s.ch.Exec(t, cachedRows)
	s.adopt(`{"pipes":[{"name":"p","sql":"SELECT event_id FROM pages WHERE org = {{ jwt.org }} ORDER BY event_id","allowed_roles":["analyst"]},
		{"name":"all","sql":"SELECT event_id FROM pages ORDER BY event_id","allowed_roles":["writer"]}]}`)
	birch, cedar := of(t, "analyst", jwt.MapClaims{"org": "birch"}), of(t, "analyst", jwt.MapClaims{"org": "cedar"})
	const document = `{"columns":["event_id"],"order_by":[{"column":"event_id"}]}`
	seen := func(a answer) string {
		require.Equal(t, http.StatusOK, a.status, a.body)
		var found []string
		for _, row := range decode[[]map[string]string](t, a) {
			found = append(found, row["event_id"])
		}
		return strings.Join(found, "")
	}
	filters := map[string][2]string{`{"_eq":"{{ jwt.org }}"}`: {"13", "2"}, `{"_neq":"{{ jwt.org }}"}`: {"24", "134"}, `{"_in":["cedar",""]}`: {"24", "24"}, `{"_nin":["cedar",""]}`: {"13", "13"}}
	for range 3 {
		for filter, want := range filters {
			s.writeFile("policies.json", strings.Replace(cachePolicy, `{"_eq":"{{ jwt.org }}"}`, filter, 1))
			require.Equal(t, http.StatusOK, s.reload().status)
			for range 2 {
				assert.Equal(t, want[0], seen(s.query("pages", document, birch...)), filter)
				assert.Equal(t, want[1], seen(s.query("pages", document, cedar...)), filter)
				assert.Equal(t, "13", seen(s.pipe("p", birch...)))
				assert.Equal(t, "2", seen(s.pipe("p", cedar...)))
				assert.Equal(t, "1234", seen(s.pipe("all", as(t, "writer")...)))
				assert.Equal(t, http.StatusForbidden, s.pipe("all", birch...).status, "a cached answer is no grant")
				assert.Equal(t, http.StatusForbidden, s.pipe("p", as(t, "writer")...).status)
			}
		}
	}
}

// Two tenants over one database share no answer, nor do their tokens.
func TestAdversaryTenantsOverOneDatabase(t *testing.T) {
	t.Parallel()
	birch := own(t)
	birch.ch.Exec(t, cachedRows)
	cedar := folder{ch: birch.ch}
	birch.policies = `{"default_role":"public","tables":{"pages":{"public":{"select":{"filter":{"org":{"_eq":"nobody"}}}},"viewer":{"select":{"filter":{"org":{"_eq":"birch"}}}}}}}`
	cedar.policies = `{"default_role":"public","tables":{"pages":{"public":{"select":{"filter":{"org":{"_eq":"nobody"}}}},"viewer":{"select":{"filter":{"org":{"_eq":"cedar"}}}}}}}`
	birch.config = map[string]string{"auth": `{"audience":"birch"}`}
	cedar.config = map[string]string{"auth": `{"audience":"cedar"}`}
	s := nested(t, options{}, map[string]folder{"birch": birch, "cedar": cedar})
	const document = `{"columns":["event_id"],"order_by":[{"column":"event_id"}]}`
	ask := func(tenant, audience string) answer {
		return s.query("pages", document, append(of(t, "viewer", jwt.MapClaims{"aud": audience}), "X-Tenant-ID", tenant)...)
	}
	for range 3 {
		assert.Equal(t, `[{"event_id":"1"},{"event_id":"3"}]`, compact(t, []byte(ask("birch", "birch").body)))
		assert.Equal(t, `[{"event_id":"2"}]`, compact(t, []byte(ask("cedar", "cedar").body)))
		assert.Equal(t, `[]`, compact(t, []byte(ask("birch", "cedar").body)), "no more than without a token")
		assert.Equal(t, `[]`, compact(t, []byte(ask("cedar", "birch").body)))
	}
	for _, id := range []string{"birch/../cedar", "../birch", "birch,cedar", "birch;", "{birch}", "birch'", "*", strings.Repeat("b", 65), "bïrch"} {
		a := ask(id, "birch")
		assert.Equal(t, http.StatusBadRequest, a.status, "%s: %s", id, a.body)
	}
	twice := s.query("pages", document, append(of(t, "viewer", jwt.MapClaims{"aud": "birch"}), "X-Tenant-ID", "birch", "X-Tenant-ID", "cedar")...)
	refused(t, twice, http.StatusBadRequest, "tenant.invalid")
	assert.Equal(t, http.StatusNotFound, ask("Birch", "birch").status)
	assert.Equal(t, http.StatusNotFound, ask("", "birch").status, "no tenant 0 here")
}
