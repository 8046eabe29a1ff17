package dynamo

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/wavehouse/wavehouse/internal/dedupe"
)

const (
	// askAgain is when it is worth asking for another's id again: asking is a
	// consistent read, so that whoever waits for two seconds pays for eight.
	askAgain = 250 * time.Millisecond
	// giveUpTimeout bounds the release of what a failed call had reserved.
	giveUpTimeout = time.Second
)

// free is the condition under which nobody has an id.
const free = "attribute_not_exists(pk) OR ex <= :now"

// newToken is of one call of an owner: it begins with the owner's, and tells an
// attempt whose answer was lost from another's reservation. It is text, as not
// every DynamoDB compares the beginnings of binaries.
func newToken(o dedupe.Owner) string {
	var call [8]byte
	_, _ = rand.Read(call[:]) // never fails
	return ownerToken(o) + hex.EncodeToString(call[:])
}

func ownerToken(o dedupe.Owner) string { return hex.EncodeToString(o[:]) }

// Reserve implements dedupe.Reserver.
func (s *Store) Reserve(ctx context.Context, scope dedupe.Scope, o dedupe.Owner, ids []string) ([]dedupe.Reservation, error) {
	keys, token := keysOf(scope, ids), newToken(o)
	reservations := make([]dedupe.Reservation, len(ids))
	for i := range reservations {
		reservations[i].State = dedupe.InFlight // until it is known to be otherwise
	}
	err := s.table.Use(ctx, func(ctx context.Context) error {
		err := dedupe.Each(len(keys), func(i int) error {
			r, err := s.reserve(ctx, o, token, keys[i])
			if err == nil {
				reservations[i] = r
			}
			return err
		})
		if err != nil {
			s.giveUp(ctx, o, keys, reservations)
			return fmt.Errorf("reserve ids: %w", err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return reservations, nil
}

// giveUp releases what a call that failed had reserved, so that the next attempt
// of its caller need not wait for it to lapse. It may fail itself.
func (s *Store) giveUp(ctx context.Context, o dedupe.Owner, keys []string, reservations []dedupe.Reservation) {
	var mine []string
	for i, r := range reservations {
		if r.State == dedupe.New {
			mine = append(mine, keys[i])
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveUpTimeout)
	defer cancel()
	_ = s.release(ctx, o, mine)
}

func (s *Store) reserve(ctx context.Context, o dedupe.Owner, token string, key string) (dedupe.Reservation, error) {
	now := s.clock.now()
	if until, ok := s.waited.Get(key); ok && now.Before(until) {
		k, found, err := s.get(ctx, key)
		if err != nil {
			return dedupe.Reservation{}, err
		}
		if found && !k.over(now) {
			return s.taken(key, k), nil
		}
	}
	out, err := s.client.PutItem(ctx, &dynamodb.PutItemInput{
		TableName: &s.o.Table,
		Item: item{
			attrKey: text(key), attrState: text(stateReserved), attrToken: text(token),
			attrEnd: number(ends(now.Add(s.o.Lease + margin))),
		},
		ConditionExpression:                 aws.String(free),
		ExpressionAttributeValues:           item{":now": number(now.Unix())},
		ReturnValues:                        types.ReturnValueAllOld,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
		ReturnConsumedCapacity:              types.ReturnConsumedCapacityTotal,
	})
	s.metrics.request("reserve", err)
	if conflict, ok := errors.AsType[*types.ConditionalCheckFailedException](err); ok {
		return s.conflict(ctx, o, token, key, now, conflict.Item)
	}
	if err != nil {
		return dedupe.Reservation{}, err
	}
	s.metrics.wrote(out.ConsumedCapacity)
	if parse(out.Attributes).state == stateReserved {
		s.metrics.lapsed.Inc()
	}
	s.held.Add(o, key, now.Add(s.o.Lease), struct{}{})
	return dedupe.Reservation{State: dedupe.New}, nil
}

// conflict is the answer for an id that somebody has: this very call, whose first
// attempt was stored and its answer lost, or another. The item comes with the
// refusal, and is read where it does not.
func (s *Store) conflict(ctx context.Context, o dedupe.Owner, token string, key string, now time.Time, old item) (dedupe.Reservation, error) {
	k, found := parse(old), old != nil
	if !found {
		var err error
		if k, found, err = s.get(ctx, key); err != nil {
			return dedupe.Reservation{}, err
		}
	}
	switch {
	case found && k.by(token):
		s.held.Add(o, key, now.Add(s.o.Lease), struct{}{})
		return dedupe.Reservation{State: dedupe.New}, nil
	case !found || k.over(s.clock.now()):
		// It was given up, or lapsed, a moment ago.
		return dedupe.Reservation{State: dedupe.InFlight, RetryAfter: time.Millisecond}, nil
	}
	return s.taken(key, k), nil
}

// taken is the answer for an id that another has.
func (s *Store) taken(key string, k known) dedupe.Reservation {
	if k.state == stateCommitted {
		return dedupe.Reservation{State: dedupe.Duplicate, Value: k.value}
	}
	s.waited.Put(key, time.Unix(k.end, 0))
	return dedupe.Reservation{State: dedupe.InFlight, RetryAfter: askAgain}
}

// get reads an item as it is now.
func (s *Store) get(ctx context.Context, key string) (k known, found bool, err error) {
	out, err := s.client.GetItem(ctx, &dynamodb.GetItemInput{
		TableName: &s.o.Table, Key: item{attrKey: text(key)}, ConsistentRead: aws.Bool(true),
		ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal,
	})
	s.metrics.request("read", err)
	if err != nil {
		return known{}, false, err
	}
	s.metrics.read(out.ConsumedCapacity)
	return parse(out.Item), out.Item != nil, nil
}
