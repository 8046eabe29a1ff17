package api

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/wavehouse/wavehouse/internal/auth"
	"github.com/wavehouse/wavehouse/internal/clickhouse"
	"github.com/wavehouse/wavehouse/internal/ingest"
	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/pipes"
	"github.com/wavehouse/wavehouse/internal/query"
	"github.com/wavehouse/wavehouse/internal/record"
	"github.com/wavehouse/wavehouse/internal/settings"
	"github.com/wavehouse/wavehouse/internal/stream"
	"github.com/wavehouse/wavehouse/internal/telemetry"
)

// fail answers with what err means. It is the one place where errors become
// responses.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	ctx := r.Context()
	p := problemOf(err)
	s.edge.errors.WithLabelValues(routeOf(r), p.Code).Inc()
	if rec := recorderOf(w); rec != nil && rec.status != 0 {
		s.Logger.WarnContext(ctx, "answer failed after it had begun", "code", p.Code, "error", err)
		panic(http.ErrAbortHandler)
	}
	if p.Status >= http.StatusInternalServerError && ctx.Err() == nil {
		// The line of the request says it, which is logged when it has ended.
		telemetry.Add(ctx, slog.String("code", p.Code), slog.String("message", p.Message), slog.Any("cause", p.Cause))
	}
	if p.Code == "clickhouse.access_denied" {
		s.Logger.WarnContext(ctx, "the ClickHouse user lacks a grant", "message", p.Message)
	}
	p.write(w, r)
}

// problemOf translates any error a handler may return.
func problemOf(err error) *Problem {
	var (
		own       *Problem
		recordErr *record.Error
		bodyErr   *record.BodyError
		gateErr   *ingest.Error
		queryErr  *query.Error
		pipeErr   *pipes.Error
		denial    *auth.Denial
		streamErr *stream.Error
		chErr     *clickhouse.Error
	)
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &recordErr):
		return recordProblem(recordErr)
	case errors.As(err, &bodyErr):
		return refusedBody(bodyErr)
	case errors.As(err, &gateErr):
		return gateProblem(gateErr, err)
	case errors.As(err, &queryErr):
		return queryProblem(queryErr)
	case errors.As(err, &pipeErr):
		return pipeProblem(pipeErr)
	case errors.As(err, &denial):
		return problem(denial.Status, denial.Code, denial.Message)
	case errors.Is(err, settings.ErrUnknownTenant):
		return problem(http.StatusNotFound, "tenant.unknown", "unknown tenant")
	case errors.Is(err, settings.ErrRejected):
		return tenantRejected()
	case errors.Is(err, auth.ErrMultipleCredentials):
		return problem(http.StatusBadRequest, "auth.multiple_credentials", err.Error())
	case errors.Is(err, auth.ErrVerifierPending):
		return problem(http.StatusServiceUnavailable, "auth.verifier_pending", err.Error()).retryable(30 * time.Second)
	case errors.As(err, &streamErr):
		return streamProblem(streamErr, err)
	case errors.As(err, &chErr), errors.Is(err, clickhouse.ErrNoPool):
		return clickhouseProblem(err)
	case errors.Is(err, mq.ErrNoDeadLetters):
		return problem(http.StatusNotFound, "dlq.none", "this tenant has no dead letters")
	case errors.Is(err, mq.ErrUnavailable), errors.Is(err, mq.ErrClosed):
		return problem(http.StatusServiceUnavailable, "queue.unavailable", "the queue is unavailable").
			retryable(5 * time.Second).because(err)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return problem(http.StatusServiceUnavailable, "request.interrupted", "the request ended before its answer").
			retryable(time.Second).because(err)
	}
	return problem(http.StatusInternalServerError, "internal", "the server met a fault of its own").because(err)
}

// recordProblem is the answer for the one record of a request.
func recordProblem(e *record.Error) *Problem {
	status := http.StatusBadRequest
	switch e.Code {
	case "record.check_failed", "record.column_not_allowed":
		status = http.StatusForbidden
	case "record.too_large":
		status = http.StatusRequestEntityTooLarge
	}
	p := problem(status, e.Code, e.Message).hint(e.Hint)
	if e.Column != "" {
		p.Fields = map[string]any{"column": e.Column}
	}
	return p
}

// refusedBody is the answer for a body that is refused as a whole.
func refusedBody(e *record.BodyError) *Problem {
	if e.Code == record.CodeColumnNotAllowed {
		return problem(http.StatusForbidden, e.Code, e.Message).with(map[string]any{"column": e.Column})
	}
	return problem(http.StatusBadRequest, e.Code, e.Message).hint(e.Hint)
}

func gateProblem(e *ingest.Error, err error) *Problem {
	status := http.StatusServiceUnavailable
	switch e.Code {
	case ingest.CodeKeyInFlight:
		status = http.StatusConflict
	case ingest.CodeKeyReused:
		status = http.StatusUnprocessableEntity
	}
	p := problem(status, e.Code, e.Message).because(err)
	p.Retryable, p.RetryAfter = e.Retryable, e.RetryAfter
	return p
}

func queryProblem(e *query.Error) *Problem {
	status := http.StatusBadRequest
	if e.Code == query.CodeColumnNotAllowed || e.Code == query.CodeAggregationNotAllowed {
		status = http.StatusForbidden
	}
	p := problem(status, e.Code, e.Message)
	if e.Column != "" {
		p.Fields = map[string]any{"column": e.Column}
	}
	return p
}

func pipeProblem(e *pipes.Error) *Problem {
	status := http.StatusBadRequest
	if e.Code == pipes.CodeClaim {
		status = http.StatusForbidden
	}
	p := problem(status, e.Code, e.Message)
	if e.Parameter != "" {
		p.Fields = map[string]any{"parameter": e.Parameter}
	}
	return p
}

func streamProblem(e *stream.Error, err error) *Problem {
	status := http.StatusServiceUnavailable
	switch e.Code {
	case stream.CodePositionInvalid:
		status = http.StatusBadRequest
	case stream.CodeTooManySubscribers:
		return tooManyStreams(e)
	}
	p := problem(status, e.Code, e.Message).because(err)
	if e.RetryAfter > 0 {
		return p.retryable(e.RetryAfter)
	}
	return p
}

// Codes of ClickHouse: thrown is a failure that the statement itself asks for,
// notAggregate a column beside an aggregation that is not grouped by.
const (
	thrown       = 395
	notAggregate = 215
)

// clickhouseProblem is the answer when ClickHouse failed a read.
func clickhouseProblem(err error) *Problem {
	verdict := clickhouse.ReadVerdict(err)
	p := problem(verdict.Status, verdict.Code, "ClickHouse cannot be asked").because(err)
	p.Retryable, p.RetryAfter = verdict.Retryable, verdict.RetryAfter
	if chErr, ok := errors.AsType[*clickhouse.Error](err); ok {
		if refusal := query.Refusal(chErr.Message); refusal != nil && chErr.Code == thrown {
			return queryProblem(refusal)
		}
		if chErr.Code != 0 {
			p.Fields = map[string]any{"clickhouse_code": chErr.Code}
		}
		switch class := clickhouse.ClassifyRead(err); {
		case class == clickhouse.ClassRejected, class == clickhouse.ClassLimit, class == clickhouse.ClassDenied, class == clickhouse.ClassTooLarge,
			chErr.Code == accessDenied:
			p.Message = chErr.Message
			if chErr.Code == notAggregate {
				p.Hint = "group by every column that stands beside an aggregation, and order by what is answered"
			}
		default:
			p.Message = "ClickHouse did not answer the query"
		}
	}
	return p
}
