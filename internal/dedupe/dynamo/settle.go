package dynamo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"golang.org/x/sync/errgroup"

	"github.com/wavehouse/wavehouse/internal/dedupe"
	"github.com/wavehouse/wavehouse/internal/lifetime"
)

const (
	// maxBatch is how many items DynamoDB takes in a batch.
	maxBatch = 25
	// batchPause is the first wait before unprocessed items are sent again; it
	// doubles.
	batchPause = 25 * time.Millisecond
)

// mine is the condition under which an id is the owner's reservation.
const mine = "st = :r AND begins_with(tk, :me)"

// Commit implements dedupe.Reserver.
func (s *Store) Commit(ctx context.Context, scope dedupe.Scope, o dedupe.Owner, entries []dedupe.Entry, retention time.Duration) (int, error) {
	var lost atomic.Int64
	err := s.table.Use(ctx, func(ctx context.Context) error {
		now := s.clock.now()
		var sure, others []item
		for _, e := range entries {
			key := keyOf(scope, e.ID)
			i := committed(key, e.Value, now, retention)
			// Whatever of this call is still on its way when it is given up has
			// arrived before anybody else may have the id.
			if _, ours := s.held.Take(o, key, now.Add(s.o.Timeout)); ours {
				sure = append(sure, i)
			} else {
				others = append(others, i)
			}
		}
		var group errgroup.Group
		group.Go(func() error { return s.commitSure(ctx, sure) })
		group.Go(func() error { return s.commitOthers(ctx, o, others, now, &lost) })
		if err := group.Wait(); err != nil {
			return fmt.Errorf("commit ids: %w", err)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return int(lost.Load()), nil
}

func committed(key string, value []byte, now time.Time, retention time.Duration) item {
	i := item{attrKey: text(key), attrState: text(stateCommitted)}
	if len(value) > 0 {
		i[attrValue] = binaries(value)
	}
	if retention > 0 {
		i[attrEnd] = number(ends(now.Add(retention)))
	}
	return i
}

// commitSure writes items that nobody else can have meanwhile.
func (s *Store) commitSure(ctx context.Context, items []item) error {
	var group errgroup.Group
	for from := 0; from < len(items); from += maxBatch {
		var batch []types.WriteRequest
		for _, i := range items[from:min(from+maxBatch, len(items))] {
			batch = append(batch, types.WriteRequest{PutRequest: &types.PutRequest{Item: i}})
		}
		group.Go(func() error { return s.writeBatch(ctx, batch) })
	}
	return group.Wait()
}

// writeBatch sends a batch, and what DynamoDB does not process of it again until
// ctx ends.
func (s *Store) writeBatch(ctx context.Context, batch []types.WriteRequest) error {
	left := func(err error) error {
		return fmt.Errorf("%d items of a batch were not processed: %w", len(batch), err)
	}
	for pause := batchPause; ; pause *= 2 {
		out, err := s.client.BatchWriteItem(ctx, &dynamodb.BatchWriteItemInput{
			RequestItems: map[string][]types.WriteRequest{s.o.Table: batch}, ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal,
		})
		s.metrics.request("commit", err)
		switch {
		case err != nil && pause > batchPause:
			return left(err)
		case err != nil:
			return err
		}
		for _, c := range out.ConsumedCapacity {
			s.metrics.wrote(&c)
		}
		if batch = out.UnprocessedItems[s.o.Table]; len(batch) == 0 {
			return nil
		}
		s.metrics.retries.WithLabelValues("unprocessed").Add(float64(len(batch)))
		if !lifetime.Pause(ctx, pause/2+rand.N(pause)) {
			return left(context.Cause(ctx))
		}
	}
}

// commitOthers writes items that another may have by now, each on the condition
// that it does not. now is when they were made.
func (s *Store) commitOthers(ctx context.Context, o dedupe.Owner, items []item, now time.Time, lost *atomic.Int64) error {
	token := newToken(o)
	return dedupe.Each(len(items), func(i int) error {
		items[i][attrToken] = text(token) // tells an attempt whose answer was lost
		out, err := s.client.PutItem(ctx, &dynamodb.PutItemInput{
			TableName: &s.o.Table, Item: items[i],
			ConditionExpression:                 aws.String(free + " OR " + mine),
			ExpressionAttributeValues:           item{":now": number(now.Unix()), ":r": text(stateReserved), ":me": text(ownerToken(o))},
			ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
			ReturnConsumedCapacity:              types.ReturnConsumedCapacityTotal,
		})
		s.metrics.request("commit", err)
		if conflict, ok := errors.AsType[*types.ConditionalCheckFailedException](err); ok {
			if !parse(conflict.Item).by(token) {
				lost.Add(1)
			}
			return nil
		}
		if err == nil {
			s.metrics.wrote(out.ConsumedCapacity)
		}
		return err
	})
}

// Release implements dedupe.Reserver.
func (s *Store) Release(ctx context.Context, scope dedupe.Scope, o dedupe.Owner, ids []string) error {
	return s.table.Use(ctx, func(ctx context.Context) error {
		if err := s.release(ctx, o, keysOf(scope, ids)); err != nil {
			return fmt.Errorf("release ids: %w", err)
		}
		return nil
	})
}

func (s *Store) release(ctx context.Context, o dedupe.Owner, keys []string) error {
	return dedupe.Each(len(keys), func(i int) error {
		s.held.Take(o, keys[i], time.Time{})
		out, err := s.client.DeleteItem(ctx, &dynamodb.DeleteItemInput{
			TableName: &s.o.Table, Key: item{attrKey: text(keys[i])},
			ConditionExpression:       aws.String(mine),
			ExpressionAttributeValues: item{":r": text(stateReserved), ":me": text(ownerToken(o))},
			ReturnConsumedCapacity:    types.ReturnConsumedCapacityTotal,
		})
		s.metrics.request("release", err)
		if _, gone := errors.AsType[*types.ConditionalCheckFailedException](err); gone {
			return nil
		}
		if err == nil {
			s.metrics.wrote(out.ConsumedCapacity)
		}
		return err
	})
}
