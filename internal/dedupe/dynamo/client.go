package dynamo

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
)

const (
	// maxAttempts and maxBackoff bound the attempts of one request.
	maxAttempts = 4
	maxBackoff  = 500 * time.Millisecond
	// maxConnections bounds the connections of the process.
	maxConnections = 256
)

// ErrNoRegion is New's where nothing names a region.
var ErrNoRegion = errors.New("no AWS region: neither the configuration nor the environment names one")

// newClient finds credentials and region as every AWS tool does. It asks nobody
// yet.
func newClient(ctx context.Context, o Options, s *Store) (*dynamodb.Client, error) {
	c, err := config.LoadDefaultConfig(ctx, config.WithRegion(o.Region), config.WithCredentialsProvider(o.credentials))
	if err != nil {
		return nil, err
	}
	if c.Region == "" {
		return nil, ErrNoRegion
	}
	connections := awshttp.NewBuildableClient().WithTimeout(o.attempt).WithTransportOptions(func(t *http.Transport) {
		t.MaxIdleConns, t.MaxIdleConnsPerHost, t.MaxConnsPerHost = maxConnections, maxConnections, maxConnections
	})
	return dynamodb.NewFromConfig(c, func(c *dynamodb.Options) {
		if o.Endpoint != "" {
			c.BaseEndpoint = aws.String(o.Endpoint)
		}
		c.HTTPClient = dated{connections, s.clock}
		c.Retryer = retryer{retry.NewStandard(func(r *retry.StandardOptions) {
			r.MaxAttempts, r.MaxBackoff = maxAttempts, maxBackoff
			// The SDK's own quota is empty after an outage, and fills with each success
			// only: a window would find none. The guard bounds what is asked for.
			r.RateLimiter = ratelimit.None
		}), s.metrics}
	}), nil
}

// dated shows the clock what time DynamoDB's answers say it is.
type dated struct {
	aws.HTTPClient
	clock *clock
}

// Do implements aws.HTTPClient.
func (d dated) Do(r *http.Request) (*http.Response, error) {
	response, err := d.HTTPClient.Do(r)
	if err == nil {
		if date, err := http.ParseTime(response.Header.Get("Date")); err == nil {
			d.clock.observe(date)
		}
	}
	return response, err
}

// retryer counts the attempts that are made again.
type retryer struct {
	*retry.Standard
	metrics *metrics
}

// IsErrorRetryable implements aws.Retryer.
func (r retryer) IsErrorRetryable(err error) bool {
	again := r.Standard.IsErrorRetryable(err)
	if again {
		r.metrics.retries.WithLabelValues(outcome(err)).Inc()
	}
	return again
}

// outcome names how a request ended.
func outcome(err error) string {
	if err == nil {
		return "ok"
	}
	if _, ok := errors.AsType[*types.ConditionalCheckFailedException](err); ok {
		return "conflict"
	}
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		switch _, throttled := retry.DefaultThrottleErrorCodes[api.ErrorCode()]; {
		case throttled:
			return "throttled"
		case api.ErrorCode() == "AccessDeniedException", api.ErrorCode() == "UnrecognizedClientException",
			api.ErrorCode() == "ExpiredTokenException", api.ErrorCode() == "InvalidSignatureException":
			return "denied"
		}
		return "error"
	}
	var network net.Error
	if errors.Is(err, context.DeadlineExceeded) || errors.As(err, &network) && network.Timeout() {
		return "timeout"
	}
	return "error"
}
