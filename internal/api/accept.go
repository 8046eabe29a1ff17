package api

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/wavehouse/wavehouse/internal/query"
)

// rendered is a media type in which rows are answered.
type rendered struct {
	mediaType string
	format    query.Format
}

// renderings are what there is, in the order in which they are chosen where the
// caller does not care. Those after the first of a format are other names of it.
var renderings = [...]rendered{
	{"application/json", query.FormatJSON},
	{"application/x-ndjson", query.FormatNDJSON},
	{"text/csv", query.FormatCSV},
	{"text/tab-separated-values", query.FormatTSV},
	{"application/vnd.apache.arrow.stream", query.FormatArrow},
	{"application/vnd.apache.parquet", query.FormatParquet},
	{"application/ndjson", query.FormatNDJSON},
	{"application/jsonl", query.FormatNDJSON},
	{"application/jsonlines", query.FormatNDJSON},
	{"application/x-jsonlines", query.FormatNDJSON},
}

const (
	answeredTypes = "application/json, application/x-ndjson (application/ndjson, application/jsonl, application/jsonlines, " +
		"application/x-jsonlines), text/csv, text/tab-separated-values, application/vnd.apache.arrow.stream, " +
		"application/vnd.apache.parquet"
	// problemType is how errors may be asked for: it says nothing of rows.
	problemType = "application/problem+json"
	// maxRanges bounds the ranges of an Accept header that are looked at.
	maxRanges = 100
)

// rowsAccepted chooses the rendering of rows by the Accept header, as RFC 9110
// has it.
func rowsAccepted(header http.Header) (rendered, error) {
	chosen, ok := choose(header.Values("Accept"), renderings[:])
	if !ok {
		return rendered{}, problem(http.StatusNotAcceptable, "accept.unsupported", "the Accept header takes nothing that there is: "+answeredTypes).
			hint("for example -H 'Accept: text/csv'; without the header the answer is JSON")
	}
	return chosen, nil
}

// jsonAccepted refuses who does not take JSON, where there is nothing else.
func jsonAccepted(header http.Header) error {
	if _, ok := choose(header.Values("Accept"), renderings[:1]); !ok {
		return problem(http.StatusNotAcceptable, "accept.unsupported", "the Accept header takes nothing that there is: this is answered as application/json alone")
	}
	return nil
}

// liking is how much a header likes an offer.
type liking struct {
	// exactness is 1 for */*, 2 for a type with any subtype, 3 for the media type,
	// and one more for each parameter that holds; 0 is not named at all.
	exactness, place int
	weight           float64
}

// better reports whether the offer is to be chosen before another.
func (l liking) better(than liking) bool {
	switch {
	case l.weight != than.weight:
		return l.weight > than.weight
	case l.exactness != than.exactness:
		return l.exactness > than.exactness
	}
	return l.place < than.place
}

// choose returns which of the offers, len(renderings) at most, the header likes
// best, false when it takes none. Of what it likes equally it is what is named more
// exactly, then what is named first, then what is offered first. Who names nothing
// gets the first.
func choose(values []string, offers []rendered) (rendered, bool) {
	if len(values) == 0 || len(values) == 1 && (values[0] == offers[0].mediaType || values[0] == "*/*") {
		return offers[0], true
	}
	var likings [len(renderings)]liking
	place, anything := 0, true
	for _, rest := range values {
		for rest != "" && place < maxRanges {
			var element string
			element, rest = cutQuoted(rest, ',')
			r, parameters := rangeOf(element)
			if r == "" || strings.EqualFold(r, problemType) {
				continue
			}
			place++
			anything = false
			for i, offer := range offers {
				l := offer.likedBy(r, parameters)
				l.place = place
				if l.exactness > likings[i].exactness || l.exactness == likings[i].exactness && l.weight > likings[i].weight {
					likings[i] = l
				}
			}
		}
	}
	best := 0
	for i := range offers {
		if likings[i].better(likings[best]) {
			best = i
		}
	}
	return offers[best], anything || likings[best].weight > 0
}

// rangeOf splits a media range from its parameters.
func rangeOf(element string) (mediaRange, parameters string) {
	mediaRange, parameters, _ = strings.Cut(element, ";")
	mediaRange = strings.Trim(mediaRange, " \t")
	if mediaRange == "*" {
		mediaRange = "*/*" // as some old clients write it
	}
	return mediaRange, parameters
}

// likedBy is what one range says of the offer.
func (o rendered) likedBy(mediaRange, parameters string) liking {
	l := liking{weight: 1}
	family, _, _ := strings.Cut(o.mediaType, "/")
	switch {
	case strings.EqualFold(mediaRange, o.mediaType):
		l.exactness = 3
	case mediaRange == "*/*":
		l.exactness = 1
	case len(mediaRange) == len(family)+2 && strings.EqualFold(mediaRange[:len(family)], family) && mediaRange[len(family):] == "/*":
		l.exactness = 2
	default:
		return liking{}
	}
	for parameters != "" {
		var parameter string
		parameter, parameters = cutQuoted(parameters, ';')
		name, value, _ := strings.Cut(parameter, "=")
		name, value = strings.Trim(name, " \t"), strings.Trim(value, " \t\"")
		if strings.EqualFold(name, "q") {
			l.weight = weightOf(value)
			continue
		}
		has, holds := o.parameter(name, value)
		if has && !holds {
			return liking{}
		}
		if has {
			l.exactness++
		}
	}
	return l
}

// parameter says whether the media type has the parameter, and whether it has that
// value here. What a type does not have says nothing.
func (o rendered) parameter(name, value string) (has, holds bool) {
	switch {
	case strings.EqualFold(name, "charset"):
		return o.format != query.FormatArrow && o.format != query.FormatParquet, strings.EqualFold(value, "utf-8")
	case strings.EqualFold(name, "header"):
		return o.format == query.FormatCSV || o.format == query.FormatTSV, strings.EqualFold(value, "present")
	}
	return false, false
}

// weightOf reads a quality value; what is none is not wanted.
func weightOf(text string) float64 {
	weight, err := strconv.ParseFloat(text, 64)
	if err != nil || !(weight >= 0 && weight <= 1) {
		return 0
	}
	return weight
}

// cutQuoted is strings.Cut that leaves alone what stands in double quotes.
func cutQuoted(s string, separator byte) (before, after string) {
	quoted := false
	for i := 0; i < len(s); i++ {
		switch {
		case quoted && s[i] == '\\':
			i++
		case s[i] == '"':
			quoted = !quoted
		case !quoted && s[i] == separator:
			return s[:i], s[i+1:]
		}
	}
	return s, ""
}
