package dynamo

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/wavehouse/wavehouse/internal/dedupe"
)

// The attributes of an item. An item without ex holds for ever.
const (
	attrKey   = "pk" // tenant/table/id, escaped
	attrState = "st" // stateReserved or stateCommitted
	attrEnd   = "ex" // in seconds since 1970: DynamoDB removes the item some time after it
	attrToken = "tk" // of a reservation: its owner, and the call that made it
	attrValue = "va" // of a committed id, what is kept beside it

	stateReserved  = "r"
	stateCommitted = "c"
)

// maxKey bounds a key in bytes, well below DynamoDB's 2,048 and such that an item
// without a value is one write unit.
const maxKey = 900

// keyOf is an id's key. One that would be long is a hash.
func keyOf(s dedupe.Scope, id string) string {
	var b strings.Builder
	b.WriteString(string(s.Tenant))
	b.WriteByte('/')
	escape(&b, s.Table)
	b.WriteByte('/')
	escape(&b, id)
	if b.Len() <= maxKey {
		return b.String()
	}
	h := sha256.New()
	h.Write(binary.AppendUvarint(nil, uint64(len(s.Table))))
	h.Write([]byte(s.Table))
	h.Write([]byte(id))
	return string(s.Tenant) + "/#" + hex.EncodeToString(h.Sum(nil)) // escape writes no '#'
}

func keysOf(s dedupe.Scope, ids []string) []string {
	keys := make([]string, len(ids))
	for i, id := range ids {
		keys[i] = keyOf(s, id)
	}
	return keys
}

// escape writes any bytes as ASCII that keeps the parts of a key apart.
func escape(b *strings.Builder, text string) {
	const digits = "0123456789ABCDEF"
	for i := range len(text) {
		c := text[i]
		if c > ' ' && c <= '~' && c != '%' && c != '/' && c != '#' {
			b.WriteByte(c)
			continue
		}
		b.Write([]byte{'%', digits[c>>4], digits[c&15]})
	}
}

type item = map[string]types.AttributeValue

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
func number(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}
func binaries(b []byte) types.AttributeValue { return &types.AttributeValueMemberB{Value: b} }

// ends is the first whole second that is at or after the time.
func ends(t time.Time) int64 { return t.Add(time.Second - 1).Unix() }

// known is what an item says.
type known struct {
	state string
	end   int64 // 0 for ever
	token string
	value []byte
}

func parse(i item) (k known) {
	if v, ok := i[attrState].(*types.AttributeValueMemberS); ok {
		k.state = v.Value
	}
	if v, ok := i[attrEnd].(*types.AttributeValueMemberN); ok {
		k.end, _ = strconv.ParseInt(v.Value, 10, 64)
	}
	if v, ok := i[attrToken].(*types.AttributeValueMemberS); ok {
		k.token = v.Value
	}
	if v, ok := i[attrValue].(*types.AttributeValueMemberB); ok {
		k.value = v.Value
	}
	return k
}

// over reports whether the item is as if it were not there, as the condition of a
// claim says it.
func (k known) over(now time.Time) bool { return k.end != 0 && k.end <= now.Unix() }

func (k known) by(token string) bool { return k.token == token }
