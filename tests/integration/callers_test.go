package integration

import (
	"net/http"
	"testing"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/assert"
)

// callersPolicy lets anyone post beacons, writers post for their organisation, and
// analysts post anything.
const callersPolicy = `{"default_role":"public","tables":{"pages":{
	"public":{"insert":{"check":{"org":{"_eq":"beacon"}}}},
	"writer":{"insert":{"check":{"org":{"_in":"{{ jwt.orgs }}"}}}},
	"analyst":{"insert":{}}}}}`

func bearer(t *testing.T, claims jwt.MapClaims) []string {
	return []string{"Authorization", "Bearer " + token(t, claims)}
}

func TestAnIdBelongsToTheTableAndToWhatTheGrantChecks(t *testing.T) {
	t.Parallel()
	s := start(t, options{config: dedupeOn, policies: callersPolicy}, pagesTable)
	ann := bearer(t, jwt.MapClaims{"role": "writer", "sub": "ann", "orgs": []string{"birch", "cedar"}})
	ben := bearer(t, jwt.MapClaims{"role": "writer", "sub": "ben", "orgs": []string{"cedar"}})
	// Whoever may post without a token takes no id of those who have one.
	s.once(s.ingest("pages", event("order-1001", "/junk")), `{"ok":true}`)
	s.once(s.ingest("pages", `{"event_id":"order-1001","org":"birch","page":"/birch"}`, ann...), `{"ok":true}`)
	s.once(s.ingest("pages", `{"event_id":"order-1001","org":"cedar","page":"/cedar"}`, ann...), `{"ok":true}`)
	s.once(s.ingest("pages", event("order-1001", "/plain"), as(t, "analyst")...), `{"ok":true}`)
	// A record is what it was, whoever of those who may write it sends it again.
	s.once(s.ingest("pages", `{"event_id":"order-1001","org":"cedar","page":"/again"}`, ben...), `{"duplicate":true}`)
	s.once(s.ingest("pages", event("order-1001", "/again")), `{"duplicate":true}`)
	s.restart()
	s.once(s.ingest("pages", `{"event_id":"order-1001","org":"birch","page":"/again"}`, ann...), `{"duplicate":true}`)
	s.once(s.ingest("pages", event("order-1001", "/again"), as(t, "analyst")...), `{"duplicate":true}`)
	s.stored("pages", 4)
	assert.Equal(t, "/birch /cedar /junk /plain", s.storedPages("order-1001"))
}

func TestAKeyBelongsToItsCaller(t *testing.T) {
	t.Parallel()
	s := start(t, options{policies: callersPolicy, config: map[string]string{"auth": `{"subject_claim":"user.id"}`}}, pagesTable)
	user := func(role, id string, org ...string) []string {
		return bearer(t, jwt.MapClaims{"role": role, "user": map[string]any{"id": id}, "orgs": org, "sub": "all the same"})
	}
	callers := [][]string{
		nil, bearer(t, jwt.MapClaims{"role": "analyst"}), user("analyst", "ann"), user("analyst", "ben"),
		user("writer", "ann", "birch"), user("writer", "ann", "cedar"), {"X-Operator-Key", operatorKey},
	}
	orgs := []string{"beacon", "", "", "", "birch", "cedar", ""}
	post := func(n int) answer {
		org := orgs[n]
		return s.ingest("pages", `{"event_id":"1","page":"/","org":"`+org+`"}`, append([]string{"Idempotency-Key", "k"}, callers[n]...)...)
	}
	for n := range callers {
		a := post(n)
		s.once(a, `{"ok":true}`)
		assert.Empty(t, a.header.Get("Idempotent-Replayed"), "caller %d", n)
	}
	for n := range callers {
		a := post(n)
		s.once(a, `{"duplicate":true}`)
		assert.Equal(t, "true", a.header.Get("Idempotent-Replayed"), "caller %d", n)
	}
	s.stored("pages", len(callers))
	// Those without a token, or with one that does not count, are one caller.
	bad := append([]string{"Idempotency-Key", "k"}, "Authorization", "Bearer none")
	s.once(s.ingest("pages", `{"event_id":"1","page":"/","org":"beacon"}`, bad...), `{"duplicate":true}`)
	refused(t, s.ingest("pages", `{"event_id":"2","page":"/"}`, "Idempotency-Key", "k"), http.StatusUnprocessableEntity, "idempotency.key_reused")
}
