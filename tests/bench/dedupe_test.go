package bench

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/wavehouse/wavehouse/internal/dedupe"
	"github.com/wavehouse/wavehouse/internal/dedupe/dynamo"
	"github.com/wavehouse/wavehouse/internal/dedupe/dynamotest"
)

// TestDedupeBenchmarks measures claims in a table of DynamoDB beside bare calls of
// the SDK that put the same items on the same condition, as many at once.
func TestDedupeBenchmarks(t *testing.T) {
	if testing.Short() {
		t.Skip("benchmarks take minutes")
	}
	t.Setenv("AWS_ACCESS_KEY_ID", dynamotest.KeyID)
	t.Setenv("AWS_SECRET_ACCESS_KEY", dynamotest.Secret)
	d := dynamotest.StartDynalite(t)
	store, err := dynamo.New(t.Context(), dynamo.Options{
		Table: "ids", Region: dynamotest.Region, Endpoint: d.URL, CreateTable: true, Lease: 30 * time.Second, Timeout: time.Minute,
		Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	require.NoError(t, store.Want(t.Context(), true))
	t.Cleanup(func() { require.NoError(t, store.Close(context.Background())) })
	scope, bare := dedupe.Scope{Tenant: "0", Table: "events"}, bareClaims(t, d.URL)
	var ours, theirs, ratios []float64
	for round := range *rounds + 1 {
		rate := perSecond(t, func(n int) error {
			_, err := store.Reserve(t.Context(), scope, dedupe.NewOwner(), windowOf("ours", round, n))
			return err
		})
		floor := perSecond(t, func(n int) error { return bare(windowOf("bare", round, n)) })
		if round > 0 { // the first warms up
			ours, theirs, ratios = append(ours, rate), append(theirs, floor), append(ratios, rate/floor)
		}
	}
	report(t, "ids", []line{{
		"claims of 256 ids, 64 at once, on dynalite, ids/s", fmt.Sprintf("%.0f", median(ours)), fmt.Sprintf("%.0f", median(theirs)), spread(ratios),
	}})
}

func windowOf(who string, round, n int) []string {
	ids := make([]string, dedupe.MaxWindow)
	for i := range ids {
		ids[i] = fmt.Sprintf("%s-%d-%d-%d", who, round, n, i)
	}
	return ids
}

// perSecond is how many ids a second one window after the other makes.
func perSecond(t *testing.T, window func(n int) error) float64 {
	start, n := time.Now(), 0
	for ; time.Since(start) < *duration; n++ {
		require.NoError(t, window(n))
	}
	return float64(n*dedupe.MaxWindow) / time.Since(start).Seconds()
}

// bareClaims puts the items of a window with nothing around the SDK.
func bareClaims(t *testing.T, url string) func(ids []string) error {
	c, err := config.LoadDefaultConfig(t.Context(), config.WithRegion(dynamotest.Region))
	require.NoError(t, err)
	client := dynamodb.NewFromConfig(c, func(o *dynamodb.Options) {
		o.BaseEndpoint = aws.String(url)
		o.HTTPClient = awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) { t.MaxIdleConnsPerHost = 64 })
	})
	return func(ids []string) error {
		var group errgroup.Group
		group.SetLimit(64)
		for _, id := range ids {
			group.Go(func() error {
				_, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{
					TableName: aws.String("ids"),
					Item: map[string]types.AttributeValue{
						"pk": &types.AttributeValueMemberS{Value: "0/events/" + id}, "st": &types.AttributeValueMemberS{Value: "r"},
						"ex": &types.AttributeValueMemberN{Value: "1"}, "tk": &types.AttributeValueMemberS{Value: "a token as long as the ones that the store uses."},
					},
					ConditionExpression:       aws.String("attribute_not_exists(pk) OR ex <= :now"),
					ExpressionAttributeValues: map[string]types.AttributeValue{":now": &types.AttributeValueMemberN{Value: "0"}},
				})
				return err
			})
		}
		return group.Wait()
	}
}
