package pipes

import "strings"

// Reads reports whether the statement is led by a verb that only reads, after
// any comments, parentheses and WITH. What is not recognised may write.
func Reads(sql string) bool { return readVerbs[Verb(sql)] }

// Changes reports whether the statement may change which tables there are, or
// what they are made of.
func Changes(sql string) bool {
	verb := Verb(sql)
	return !readVerbs[verb] && !rowVerbs[verb]
}

var readVerbs = map[string]bool{
	"SELECT": true, "FROM": true, "SHOW": true, "DESCRIBE": true, "DESC": true, "EXISTS": true, "EXPLAIN": true, "CHECK": true,
}

// rowVerbs write rows and leave the tables as they are.
var rowVerbs = map[string]bool{"INSERT": true, "DELETE": true, "UPDATE": true, "OPTIMIZE": true, "TRUNCATE": true}

// NamesFormat reports whether the statement says in which format it is answered.
func NamesFormat(sql string) bool {
	tokens := meaningful(sql, scan(sql))
	for i, t := range tokens {
		if t.kind == word && strings.EqualFold(sql[t.start:t.end], "FORMAT") && formatClause(sql, tokens[i+1:]) {
			return true
		}
	}
	return false
}

// Subquery returns a SELECT as it may stand in parentheses. It is not ok for another
// statement, and for one that names its format.
func Subquery(sql string) (subquery string, ok bool) {
	tokens := meaningful(sql, scan(sql))
	if verb := Verb(sql); verb != "SELECT" && verb != "FROM" || NamesFormat(sql) {
		return "", false
	}
	return sql[tokens[0].start:tokens[len(tokens)-1].end], true
}

// Verb returns the verb that leads the statement, in capitals; "" without one.
func Verb(sql string) string {
	with, depth := false, 0
	before := ""
	for _, t := range scan(sql) {
		text := sql[t.start:t.end]
		switch t.kind {
		case space, comment:
			continue
		case word:
			upper := strings.ToUpper(text)
			switch {
			case !with && upper == "WITH":
				with, depth = true, 0
			case !with:
				return upper
			case depth == 0 && before != "AS" && verbAfterWith(upper):
				return upper
			}
			before = upper
			continue
		case symbol:
			switch text {
			case "(", "[", "{":
				depth++
			case ")", "]", "}":
				depth--
			case ";":
				if with {
					return ""
				}
			}
			before = text
			if with || text == "(" || text == ";" {
				continue
			}
			return ""
		}
		before = ""
		if !with {
			return ""
		}
	}
	return ""
}

func verbAfterWith(word string) bool {
	return word == "SELECT" || word == "FROM" || rowVerbs[word]
}
