package dynamotest

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Fault is what a Fake does to a request. The zero Fault answers it.
type Fault struct {
	// Code is an error's, in place of an answer; Status is its HTTP status, 0 for
	// 400.
	Code   string
	Status int
	// Lose does what is asked and resets the connection in place of an answer.
	Lose bool
	// Tear does what is asked and cuts the answer short.
	Tear bool
	// Hang never answers.
	Hang bool
	// Unprocessed leaves so many items of a batch undone.
	Unprocessed int
}

// Fake is a DynamoDB of one process that takes exactly the requests of the store
// of seen ids.
type Fake struct {
	// URL is its endpoint.
	URL string

	server *httptest.Server
	gone   chan struct{}

	mu     sync.Mutex
	tables map[string]*table
	fault  func(operation string, n int) Fault
	counts map[string]int
	skew   time.Duration
}

type table struct {
	definition map[string]any
	ttl        string
	items      map[string]item
}

type (
	value = map[string]any // one entry: the type and the value
	item  = map[string]value
)

// NewFake starts a Fake that ends with the test.
func NewFake(t testing.TB) *Fake {
	t.Helper()
	f := &Fake{tables: map[string]*table{}, counts: map[string]int{}, gone: make(chan struct{})}
	f.server = httptest.NewServer(http.HandlerFunc(f.serve))
	f.URL = f.server.URL
	t.Cleanup(func() {
		close(f.gone)
		f.server.CloseClientConnections()
		f.server.Close()
	})
	return f
}

// Fail has fault say what becomes of the nth request (from 1) of an operation,
// nil for no faults. The counts begin anew.
func (f *Fake) Fail(fault func(operation string, n int) Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault, f.counts = fault, map[string]int{}
}

// Skew has its answers say that it is later than it is.
func (f *Fake) Skew(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.skew = d
}

// Counts says how many requests there were since the last Fail, by operation.
func (f *Fake) Counts() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	counts := map[string]int{}
	for operation, n := range f.counts {
		counts[operation] = n
	}
	return counts
}

// AddTable makes a table with a partition key of a name and type, and TTL on an
// attribute ("" for off).
func (f *Fake) AddTable(name, key, kind, ttl string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tables[name] = &table{ttl: ttl, items: map[string]item{}, definition: map[string]any{
		"TableName": name, "TableStatus": "ACTIVE",
		"KeySchema":            []any{map[string]any{"AttributeName": key, "KeyType": "HASH"}},
		"AttributeDefinitions": []any{map[string]any{"AttributeName": key, "AttributeType": kind}},
	}}
}

// Define changes an attribute of a table's description.
func (f *Fake) Define(name, attribute string, to any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tables[name].definition[attribute] = to
}

// Items are the keys of a table, with what their item says in JSON.
func (f *Fake) Items(name string) map[string]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := map[string]string{}
	for key, i := range f.tables[name].items {
		text, _ := json.Marshal(i)
		all[key] = string(text)
	}
	return all
}

// failure is an answer that is an error.
type failure struct {
	code, message string
	status        int
	more          map[string]any
}

func (e *failure) Error() string { return e.code + ": " + e.message }

func invalid(format string, args ...any) error {
	return &failure{code: "ValidationException", message: fmt.Sprintf(format, args...)}
}

func (f *Fake) serve(w http.ResponseWriter, r *http.Request) {
	operation := strings.TrimPrefix(r.Header.Get("X-Amz-Target"), "DynamoDB_20120810.")
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	f.mu.Lock()
	f.counts[operation]++
	var fault Fault
	if f.fault != nil {
		fault = f.fault(operation, f.counts[operation])
	}
	var answer any
	switch {
	case fault.Hang:
		f.mu.Unlock()
		select {
		case <-r.Context().Done():
		case <-f.gone:
		}
		return
	case fault.Code != "":
		err = &failure{code: fault.Code, message: "as the test asked for", status: fault.Status}
	default:
		answer, err = f.answer(r, operation, body, fault)
	}
	skew := f.skew
	f.mu.Unlock()
	f.write(w, answer, err, fault, skew)
}

func (f *Fake) write(w http.ResponseWriter, answer any, err error, fault Fault, skew time.Duration) {
	status := http.StatusOK
	if e, ok := errors.AsType[*failure](err); ok {
		status = http.StatusBadRequest
		if e.status != 0 {
			status = e.status
		}
		said := map[string]any{"__type": "com.amazonaws.dynamodb.v20120810#" + e.code, "message": e.message}
		for key, more := range e.more {
			said[key] = more
		}
		answer = said
	}
	text, _ := json.Marshal(answer)
	if fault.Lose {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	w.Header().Set("X-Amzn-Requestid", "TEST")
	w.Header().Set("Date", time.Now().Add(skew).UTC().Format(http.TimeFormat))
	w.Header().Set("X-Amz-Crc32", strconv.FormatUint(uint64(crc32.ChecksumIEEE(text)), 10))
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(status)
	if fault.Tear {
		_, _ = w.Write(text[:len(text)/2])
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write(text)
}

// request holds the members of all requests that are known; others are refused.
type request struct {
	TableName                           string
	Item, Key                           item
	ConditionExpression                 string
	ExpressionAttributeValues           item
	ReturnValues                        string
	ReturnValuesOnConditionCheckFailure string
	ReturnConsumedCapacity              string
	ConsistentRead                      bool
	RequestItems                        map[string][]struct{ PutRequest struct{ Item item } }
	BillingMode                         string
	AttributeDefinitions, KeySchema     []map[string]string
	TimeToLiveSpecification             struct {
		AttributeName string
		Enabled       bool
	}
}

func (f *Fake) answer(r *http.Request, operation string, body []byte, fault Fault) (any, error) {
	if auth := r.Header.Get("Authorization"); !strings.HasPrefix(auth, "AWS4-HMAC-SHA256 Credential="+KeyID+"/") ||
		!strings.Contains(auth, "/"+Region+"/dynamodb/aws4_request") {
		return nil, &failure{code: "UnrecognizedClientException", message: "the security token is invalid"}
	}
	var q request
	decoder := json.NewDecoder(strings.NewReader(string(body)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&q); err != nil {
		return nil, invalid("%v", err)
	}
	if operation == "BatchWriteItem" {
		return f.batch(q, fault)
	}
	t := f.tables[q.TableName]
	if operation == "CreateTable" {
		return f.create(q)
	}
	if t == nil {
		return nil, &failure{code: "ResourceNotFoundException", message: "Requested resource not found"}
	}
	switch operation {
	case "DescribeTable":
		return map[string]any{"Table": t.definition}, nil
	case "DescribeTimeToLive":
		if t.ttl == "" {
			return map[string]any{"TimeToLiveDescription": map[string]any{"TimeToLiveStatus": "DISABLED"}}, nil
		}
		return map[string]any{"TimeToLiveDescription": map[string]any{"TimeToLiveStatus": "ENABLED", "AttributeName": t.ttl}}, nil
	case "UpdateTimeToLive":
		t.ttl = q.TimeToLiveSpecification.AttributeName
		return map[string]any{"TimeToLiveSpecification": map[string]any{"Enabled": true, "AttributeName": t.ttl}}, nil
	case "GetItem":
		return t.get(q)
	case "PutItem":
		return t.change(q, q.Item)
	case "DeleteItem":
		return t.change(q, nil)
	}
	return nil, &failure{code: "UnknownOperationException", message: operation}
}

func (f *Fake) create(q request) (any, error) {
	if f.tables[q.TableName] != nil {
		return nil, &failure{code: "ResourceInUseException", message: "Table already exists"}
	}
	t := &table{items: map[string]item{}, definition: map[string]any{
		"TableName": q.TableName, "TableStatus": "ACTIVE", "KeySchema": q.KeySchema, "AttributeDefinitions": q.AttributeDefinitions,
	}}
	f.tables[q.TableName] = t
	return map[string]any{"TableDescription": t.definition}, nil
}

var units = map[string]any{"CapacityUnits": 1}

func (t *table) key(i item) (string, error) {
	pk, ok := i["pk"]["S"].(string)
	if !ok || pk == "" || len(pk) > 2048 {
		return "", invalid("the key pk is not a string of 1 to 2048 bytes")
	}
	size := 0
	for name, v := range i {
		text, _ := json.Marshal(v)
		size += len(name) + len(text)
	}
	if size > 400<<10 {
		return "", invalid("Item size has exceeded the maximum allowed size")
	}
	return pk, nil
}

func (t *table) get(q request) (any, error) {
	key, err := t.key(q.Key)
	if err != nil {
		return nil, err
	}
	if !q.ConsistentRead {
		return nil, invalid("an eventually consistent read may show what was before")
	}
	answer := map[string]any{"ConsumedCapacity": units}
	if i, ok := t.items[key]; ok {
		answer["Item"] = i
	}
	return answer, nil
}

// change puts or, for nil, deletes an item where its condition holds.
func (t *table) change(q request, to item) (any, error) {
	id := q.Key
	if to != nil {
		id = to
	}
	key, err := t.key(id)
	if err != nil {
		return nil, err
	}
	old, exists := t.items[key]
	holds, err := condition(q, old, exists)
	if err != nil {
		return nil, err
	}
	if !holds {
		e := &failure{code: "ConditionalCheckFailedException", message: "The conditional request failed", more: map[string]any{}}
		if exists && q.ReturnValuesOnConditionCheckFailure == "ALL_OLD" {
			e.more["Item"] = old
		}
		return nil, e
	}
	answer := map[string]any{"ConsumedCapacity": units}
	if exists && q.ReturnValues == "ALL_OLD" {
		answer["Attributes"] = old
	}
	if to == nil {
		delete(t.items, key)
	} else {
		t.items[key] = to
	}
	return answer, nil
}

// condition judges the terms that are known; any of them may hold.
func condition(q request, old item, exists bool) (bool, error) {
	if q.ConditionExpression == "" {
		return false, invalid("nothing here is written without a condition")
	}
	any := false
	for _, term := range strings.Split(q.ConditionExpression, " OR ") {
		switch term {
		case "attribute_not_exists(pk)":
			any = any || !exists
		case "ex <= :now":
			end, err1 := strconv.ParseInt(fmt.Sprint(old["ex"]["N"]), 10, 64)
			now, err2 := strconv.ParseInt(fmt.Sprint(q.ExpressionAttributeValues[":now"]["N"]), 10, 64)
			if err2 != nil {
				return false, invalid(":now: %v", err2)
			}
			any = any || err1 == nil && end <= now
		case "st = :r AND begins_with(tk, :me)":
			token, _ := old["tk"]["S"].(string)
			me, _ := q.ExpressionAttributeValues[":me"]["S"].(string)
			if len(me) != 32 {
				return false, invalid(":me is no owner: %q", me)
			}
			any = any || old["st"]["S"] == q.ExpressionAttributeValues[":r"]["S"] && strings.HasPrefix(token, me)
		default:
			return false, invalid("unknown condition %q", term)
		}
	}
	return any, nil
}

func (f *Fake) batch(q request, fault Fault) (any, error) {
	unprocessed := map[string]any{}
	for name, all := range q.RequestItems {
		t := f.tables[name]
		if t == nil {
			return nil, &failure{code: "ResourceNotFoundException", message: "Requested resource not found"}
		}
		if len(all) == 0 || len(all) > 25 {
			return nil, invalid("a batch of %d items", len(all))
		}
		seen := map[string]bool{}
		for n, w := range all {
			key, err := t.key(w.PutRequest.Item)
			if err != nil {
				return nil, err
			}
			if seen[key] {
				return nil, invalid("Provided list of item keys contains duplicates")
			}
			seen[key] = true
			if n >= len(all)-fault.Unprocessed {
				left, _ := unprocessed[name].([]any)
				unprocessed[name] = append(left, w)
				continue
			}
			t.items[key] = w.PutRequest.Item
		}
	}
	return map[string]any{"UnprocessedItems": unprocessed, "ConsumedCapacity": []any{units}}, nil
}
