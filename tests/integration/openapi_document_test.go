package integration

import (
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
)

// contract is the OpenAPI document as the server answers it, and which of its
// answers were seen. Its schemas are read in place, by JSON pointer.
type contract struct {
	root     map[string]any
	compiler *jsonschema.Compiler
	seen     map[string]bool
}

const contractName = "https://wavehouse.test/openapi.json"

func readContract(t testing.TB, text string) *contract {
	t.Helper()
	root, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	require.NoError(t, err)
	c := &contract{root: root.(map[string]any), compiler: jsonschema.NewCompiler(), seen: map[string]bool{}}
	c.compiler.DefaultDraft(jsonschema.Draft2020)
	c.compiler.AssertFormat()
	require.NoError(t, c.compiler.AddResource(contractName, root))
	return c
}

// at follows a path of keys and the references on its way. It returns the
// place where the value stands.
func (c *contract) at(place []string, keys ...string) (value map[string]any, found []string, ok bool) {
	for {
		value, ok = c.value(place)
		if !ok {
			return nil, nil, false
		}
		reference, is := value["$ref"].(string)
		switch {
		case is:
			place = strings.Split(strings.TrimPrefix(reference, "#/"), "/")
		case len(keys) == 0:
			return value, place, true
		default:
			place, keys = append(slices.Clone(place), keys[0]), keys[1:]
		}
	}
}

func (c *contract) value(place []string) (map[string]any, bool) {
	value := c.root
	for _, key := range place {
		next, ok := value[key].(map[string]any)
		if !ok {
			return nil, false
		}
		value = next
	}
	return value, true
}

// answers are all answers that the document promises, as "GET /path 200".
func (c *contract) answers() []string {
	var all []string
	for path := range c.root["paths"].(map[string]any) {
		operations, _ := c.value([]string{"paths", path})
		for method := range operations {
			responses, _ := c.value([]string{"paths", path, method, "responses"})
			for status := range responses {
				all = append(all, strings.ToUpper(method)+" "+path+" "+status)
			}
		}
	}
	slices.Sort(all)
	return all
}

// answered holds an answer to the document.
func (c *contract) answered(method, route string, a answer) error {
	status := strconv.Itoa(a.status)
	_, place, ok := c.at([]string{"paths", route, strings.ToLower(method), "responses"}, status)
	if !ok {
		return fmt.Errorf("%s %s answers %s, which is not documented: %s", method, route, status, a.body)
	}
	c.seen[method+" "+route+" "+status] = true
	if err := c.headers(place, a.header); err != nil {
		return err
	}
	media, _, _ := mime.ParseMediaType(a.header.Get("Content-Type"))
	_, _, hasContent := c.at(place, "content")
	if a.body == "" && media == "" && (!hasContent || route == "/v1/health") {
		return nil
	}
	for _, name := range []string{media, "*/*"} {
		if _, at, ok := c.at(place, "content", name); ok {
			return c.body(at, media, a.body)
		}
	}
	return fmt.Errorf("the content type %q is not documented", media)
}

// headers holds the headers that were sent to their schemas.
func (c *contract) headers(place []string, sent http.Header) error {
	documented, _, _ := c.at(place, "headers")
	for name := range documented {
		text := sent.Get(name)
		if text == "" {
			continue
		}
		_, at, ok := c.at(place, "headers", name, "schema")
		if !ok {
			return fmt.Errorf("the header %s has no schema", name)
		}
		if err := c.holdsText(at, text); err != nil {
			return fmt.Errorf("header %s: %w", name, err)
		}
	}
	return nil
}

func (c *contract) body(place []string, media, text string) error {
	_, at, ok := c.at(place, "schema")
	if !ok {
		return nil // bytes
	}
	if media != "application/json" && !strings.HasSuffix(media, "+json") {
		return c.holds(at, text)
	}
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return fmt.Errorf("%q is not JSON: %w", text, err)
	}
	return c.holds(at, value)
}

func (c *contract) holds(place []string, value any) error {
	var pointer strings.Builder
	for _, key := range place {
		pointer.WriteString("/" + url.PathEscape(strings.NewReplacer("~", "~0", "/", "~1").Replace(key)))
	}
	schema, err := c.compiler.Compile(contractName + "#" + pointer.String())
	if err != nil {
		return err
	}
	return schema.Validate(value)
}

// asked holds a request that succeeded to the document: its parameters are
// listed there, and its body is one of those described.
func (c *contract) asked(method, route string, q question) error {
	operation := []string{"paths", route, strings.ToLower(method)}
	target, err := url.Parse(q.target)
	if err != nil {
		return err
	}
	for name, values := range target.Query() {
		at, free, ok := c.parameter(operation, name)
		if !ok {
			return fmt.Errorf("the parameter %s is not documented", name)
		}
		if !free {
			if err := c.holdsText(at, values[0]); err != nil {
				return fmt.Errorf("parameter %s: %w", name, err)
			}
		}
	}
	if q.body == "" {
		return nil
	}
	media, _, _ := mime.ParseMediaType(q.contentType())
	if media == "" {
		media = "application/json"
	}
	_, at, ok := c.at(operation, "requestBody", "content", media)
	if !ok {
		return fmt.Errorf("a body of the type %q is not documented", media)
	}
	return c.body(at, media, q.body)
}

// parameter finds the schema of a parameter of the query string. free means
// that the route takes others than those it names.
func (c *contract) parameter(operation []string, name string) (schema []string, free, ok bool) {
	value, _ := c.value(operation)
	list, _ := value["parameters"].([]any)
	for i, entry := range list {
		parameter := entry.(map[string]any)
		switch {
		case parameter["in"] != "query":
		case parameter["name"] == name:
			return append(slices.Clone(operation), "parameters", strconv.Itoa(i), "schema"), false, true
		case parameter["explode"] == true:
			free = true
		}
	}
	return nil, free, free
}

// holdsText holds a value that travels as text to its schema.
func (c *contract) holdsText(place []string, text string) error {
	err := c.holds(place, text)
	if number, wrong := strconv.Atoi(text); err != nil && wrong == nil {
		return c.holds(place, number)
	}
	return err
}
