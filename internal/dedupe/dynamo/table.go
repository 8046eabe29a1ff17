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

// look looks at the table, and makes it where that is asked for.
func (s *Store) look(ctx context.Context) (dedupe.Verdict, error) {
	v, err := s.judge(ctx)
	missing, ok := errors.AsType[*types.ResourceNotFoundException](err)
	if !ok {
		return v, err
	}
	if err = missing; s.o.CreateTable && s.o.Endpoint != "" {
		if err = s.create(ctx); err == nil {
			v, err = s.judge(ctx)
		}
	}
	if err != nil {
		v.Fault = fmt.Errorf("there is no table %q: %w", s.o.Table, err)
	}
	return v, nil
}

// judge looks at the table; the error says that it could not.
func (s *Store) judge(ctx context.Context) (v dedupe.Verdict, err error) {
	out, err := s.client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &s.o.Table})
	s.metrics.request("describe", err)
	if err != nil {
		return v, err
	}
	if fault := shape(out.Table); fault != nil {
		return dedupe.Verdict{Fault: fmt.Errorf("the table %q: %w", s.o.Table, fault)}, nil
	}
	if len(out.Table.Replicas) > 0 && out.Table.MultiRegionConsistency != types.MultiRegionConsistencyStrong {
		v.Advice = errors.New("it is replicated to other regions eventually: an id that is claimed in two regions at once is stored twice")
	}
	ttl, err := s.client.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: &s.o.Table})
	s.metrics.request("describe", err)
	if err != nil {
		return v, err
	}
	v.Advice = errors.Join(v.Advice, ttlAdvice(ttl.TimeToLiveDescription))
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

// ttlAdvice judges what DynamoDB removes. Without it nothing is forgotten wrongly:
// what is over counts as absent, and is paid for for ever.
func ttlAdvice(d *types.TimeToLiveDescription) error {
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
