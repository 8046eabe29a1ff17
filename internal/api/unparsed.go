package api

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// MaxHeaderBytes bounds the request line and the headers of a request.
const MaxHeaderBytes = 64 << 10

// Unparsed is a whole answer of HTTP/1.1 to a request that could not be read, which no
// handler has seen.
func Unparsed(status int) []byte {
	p := problem(status, "request.malformed", "this is no request of HTTP that the server can read")
	if status == http.StatusRequestHeaderFieldsTooLarge {
		p = problem(status, "request.headers_too_large",
			fmt.Sprintf("the request line and the headers are larger than %d KiB", MaxHeaderBytes>>10))
	}
	id := newRequestID()
	body, _ := json.Marshal(p.body(id)) // of texts never fails
	return fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nCache-Control: no-store\r\n"+
		"X-Content-Type-Options: nosniff\r\nX-Request-Id: %s\r\nConnection: close\r\n\r\n%s\n", status, http.StatusText(status), len(body)+1, id, body)
}
