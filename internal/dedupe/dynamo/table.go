package dynamo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/wavehouse/wavehouse/internal/dedupe"
)

// verdict is what was found about the table.
type verdict struct {
	// fault is why it cannot be used; it wraps dedupe.ErrUnavailable.
	fault error
	// advice is what should be otherwise.
	advice error
}

// open returns nil once the table is known to be of the right shape. It was looked
// at before, but for a call that comes very early or finds it wrong for long.
func (s *Store) open(ctx context.Context) error {
	s.mu.Lock()
	fault, stale := s.verdict.fault, time.Since(s.checked) >= s.o.recheck
	s.mu.Unlock()
	if fault == nil || !stale {
		return fault
	}
	return s.look(ctx)
}

// look looks at the table, makes it where that is asked for, and remembers what it
// found. A look that got no answer leaves a table that was right as it was.
func (s *Store) look(ctx context.Context) error {
	s.checking.Lock()
	defer s.checking.Unlock()
	v, err := s.judge(ctx)
	if missing, ok := errors.AsType[*types.ResourceNotFoundException](err); ok {
		if err = missing; s.o.CreateTable && s.o.Endpoint != "" {
			if err = s.create(ctx); err == nil {
				v, err = s.judge(ctx)
			}
		}
		if err != nil {
			v.fault = fmt.Errorf("%w: there is no table %q: %w", dedupe.ErrUnavailable, s.o.Table, err)
		}
	} else if err != nil {
		v.fault = fmt.Errorf("%w: look at the table %q: %w", dedupe.ErrUnavailable, s.o.Table, err)
		if s.isOpen() {
			return nil
		}
	}
	s.note(v)
	return v.fault
}

// note remembers a verdict, and says so when it is another one.
func (s *Store) note(v verdict) {
	s.mu.Lock()
	before := s.verdict
	s.verdict, s.checked = v, time.Now()
	s.mu.Unlock()
	switch {
	case v.fault != nil:
		if before.fault == nil || before.fault.Error() != v.fault.Error() {
			s.o.Logger.Error("the table of seen ids cannot be used; it is looked at again", "table", s.o.Table, "error", v.fault)
		}
	case v.advice != nil:
		if before.advice == nil || before.advice.Error() != v.advice.Error() {
			s.o.Logger.Warn("the table of seen ids is not as it should be", "table", s.o.Table, "error", v.advice)
		}
	case before != verdict{}:
		s.o.Logger.Info("the table of seen ids is right", "table", s.o.Table)
	}
}

// judge looks at the table; the error says that it could not.
func (s *Store) judge(ctx context.Context) (v verdict, err error) {
	out, err := s.client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &s.o.Table})
	s.metrics.request("describe", err)
	if err != nil {
		return v, err
	}
	if fault := shape(out.Table); fault != nil {
		return verdict{fault: fmt.Errorf("%w: the table %q: %w", dedupe.ErrUnavailable, s.o.Table, fault)}, nil
	}
	if len(out.Table.Replicas) > 0 && out.Table.MultiRegionConsistency != types.MultiRegionConsistencyStrong {
		v.advice = errors.New("it is replicated to other regions eventually: an id that is claimed in two regions at once is stored twice")
	}
	ttl, err := s.client.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: &s.o.Table})
	s.metrics.request("describe", err)
	if err != nil {
		return v, err
	}
	v.advice = errors.Join(v.advice, lifetime(ttl.TimeToLiveDescription))
	return v, nil
}

// shape judges the key schema.
func shape(t *types.TableDescription) error {
	switch t.TableStatus {
	case types.TableStatusActive, types.TableStatusUpdating:
	default:
		return fmt.Errorf("it is %s", t.TableStatus)
	}
	if len(t.KeySchema) != 1 || aws.ToString(t.KeySchema[0].AttributeName) != attrKey || t.KeySchema[0].KeyType != types.KeyTypeHash {
		return fmt.Errorf("its key must be %s alone, a partition key without a sort key", attrKey)
	}
	for _, a := range t.AttributeDefinitions {
		if aws.ToString(a.AttributeName) == attrKey && a.AttributeType != types.ScalarAttributeTypeS {
			return fmt.Errorf("its key %s must be a string (S), not %s", attrKey, a.AttributeType)
		}
	}
	return nil
}

// lifetime judges what DynamoDB removes. Without it nothing is forgotten wrongly:
// what is over counts as absent, and is paid for for ever.
func lifetime(d *types.TimeToLiveDescription) error {
	switch {
	case d == nil, d.TimeToLiveStatus == types.TimeToLiveStatusDisabled, d.TimeToLiveStatus == types.TimeToLiveStatusDisabling:
		return fmt.Errorf("TTL is off: switch it on for the attribute %s, or ids are kept for ever", attrEnd)
	case aws.ToString(d.AttributeName) != attrEnd:
		return fmt.Errorf("TTL is on for the attribute %s: it must be %s", aws.ToString(d.AttributeName), attrEnd)
	}
	return nil
}

// create makes the table for development. TTL is asked for, and done without where
// there is none.
func (s *Store) create(ctx context.Context) error {
	_, err := s.client.CreateTable(ctx, &dynamodb.CreateTableInput{
		TableName: &s.o.Table, BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String(attrKey), AttributeType: types.ScalarAttributeTypeS}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String(attrKey), KeyType: types.KeyTypeHash}},
	})
	s.metrics.request("create", err)
	if _, another := errors.AsType[*types.ResourceInUseException](err); err != nil && !another {
		return fmt.Errorf("create it: %w", err)
	}
	waiter := dynamodb.NewTableExistsWaiter(s.client, func(o *dynamodb.TableExistsWaiterOptions) {
		o.MinDelay, o.MaxDelay = 50*time.Millisecond, time.Second
	})
	if err := waiter.Wait(ctx, &dynamodb.DescribeTableInput{TableName: &s.o.Table}, s.o.Timeout); err != nil {
		return fmt.Errorf("wait until it is created: %w", err)
	}
	_, err = s.client.UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{
		TableName:               &s.o.Table,
		TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String(attrEnd), Enabled: aws.Bool(true)},
	})
	s.metrics.request("create", err)
	if err != nil {
		s.o.Logger.Warn("cannot switch TTL on", "table", s.o.Table, "error", err)
	}
	return nil
}
