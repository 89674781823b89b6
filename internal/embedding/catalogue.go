package embedding

import "github.com/overlakedb/overlake/internal/vec"

// What queries and documents of several families begin with.
const (
	passageInstruction = "Represent this sentence for searching relevant passages: "
	e5Query            = "query: "
	e5Document         = "passage: "
	nomicQuery         = "search_query: "
	nomicDocument      = "search_document: "
)

// catalogue holds the models, family by family. Sources are the model cards of the makers, and for models behind an interface
// the maker's reference of it, as of 2025.
var catalogue = []*Model{
	// BGE, Beijing Academy of Artificial Intelligence.
	{Name: "BAAI/bge-small-en-v1.5", Aliases: []string{"bge-small-en-v1.5"}, Dim: 384, Metric: vec.MetricCosine, QueryPrefix: passageInstruction, Unit: Yes},
	{Name: "BAAI/bge-base-en-v1.5", Aliases: []string{"bge-base-en-v1.5"}, Dim: 768, Metric: vec.MetricCosine, QueryPrefix: passageInstruction, Unit: Yes},
	{Name: "BAAI/bge-large-en-v1.5", Aliases: []string{"bge-large-en-v1.5"}, Dim: 1024, Metric: vec.MetricCosine, QueryPrefix: passageInstruction, Unit: Yes},
	{Name: "BAAI/bge-m3", Aliases: []string{"bge-m3"}, Dim: 1024, Metric: vec.MetricCosine, Unit: Yes},

	// E5, Microsoft.
	{Name: "intfloat/e5-small-v2", Aliases: []string{"e5-small-v2"}, Dim: 384, Metric: vec.MetricCosine, QueryPrefix: e5Query, DocumentPrefix: e5Document, Unit: Yes},
	{Name: "intfloat/e5-base-v2", Aliases: []string{"e5-base-v2"}, Dim: 768, Metric: vec.MetricCosine, QueryPrefix: e5Query, DocumentPrefix: e5Document, Unit: Yes},
	{Name: "intfloat/e5-large-v2", Aliases: []string{"e5-large-v2"}, Dim: 1024, Metric: vec.MetricCosine, QueryPrefix: e5Query, DocumentPrefix: e5Document, Unit: Yes},
	{Name: "intfloat/multilingual-e5-small", Aliases: []string{"multilingual-e5-small"}, Dim: 384, Metric: vec.MetricCosine, QueryPrefix: e5Query, DocumentPrefix: e5Document, Unit: Yes},
	{Name: "intfloat/multilingual-e5-base", Aliases: []string{"multilingual-e5-base"}, Dim: 768, Metric: vec.MetricCosine, QueryPrefix: e5Query, DocumentPrefix: e5Document, Unit: Yes},
	{Name: "intfloat/multilingual-e5-large", Aliases: []string{"multilingual-e5-large"}, Dim: 1024, Metric: vec.MetricCosine, QueryPrefix: e5Query, DocumentPrefix: e5Document, Unit: Yes},

	// Nomic.
	{Name: "nomic-ai/nomic-embed-text-v1", Aliases: []string{"nomic-embed-text-v1"}, Dim: 768, Metric: vec.MetricCosine, QueryPrefix: nomicQuery, DocumentPrefix: nomicDocument},
	{Name: "nomic-ai/nomic-embed-text-v1.5", Aliases: []string{"nomic-embed-text-v1.5", "nomic-embed-text:v1.5", "nomic-embed-text"}, Dim: 768, Min: 64, Metric: vec.MetricCosine, QueryPrefix: nomicQuery, DocumentPrefix: nomicDocument},
	{Name: "nomic-ai/nomic-embed-text-v2-moe", Aliases: []string{"nomic-embed-text-v2-moe"}, Dim: 768, Min: 256, Metric: vec.MetricCosine, QueryPrefix: nomicQuery, DocumentPrefix: nomicDocument},

	// OpenAI.
	{Name: "text-embedding-3-small", Aliases: []string{"openai/text-embedding-3-small"}, Dim: 1536, Min: 1, Metric: vec.MetricCosine, Unit: Yes},
	{Name: "text-embedding-3-large", Aliases: []string{"openai/text-embedding-3-large"}, Dim: 3072, Min: 1, Metric: vec.MetricCosine, Unit: Yes},
	{Name: "text-embedding-ada-002", Aliases: []string{"openai/text-embedding-ada-002"}, Dim: 1536, Metric: vec.MetricCosine, Unit: Yes},

	// Sentence Transformers.
	{Name: "sentence-transformers/all-MiniLM-L6-v2", Aliases: []string{"all-minilm-l6-v2", "all-minilm"}, Dim: 384, Metric: vec.MetricCosine, Unit: Yes},
	{Name: "sentence-transformers/all-MiniLM-L12-v2", Aliases: []string{"all-minilm-l12-v2"}, Dim: 384, Metric: vec.MetricCosine, Unit: Yes},
	{Name: "sentence-transformers/all-mpnet-base-v2", Aliases: []string{"all-mpnet-base-v2"}, Dim: 768, Metric: vec.MetricCosine, Unit: Yes},

	// Google.
	{Name: "google/embeddinggemma-300m", Aliases: []string{"embeddinggemma-300m", "embeddinggemma"}, Dim: 768, Other: []int{128, 256, 512}, Metric: vec.MetricCosine,
		QueryPrefix: "task: search result | query: ", DocumentPrefix: "title: none | text: ", Unit: Yes},

	// Cohere. A call says whether its texts are queries.
	{Name: "embed-english-v3.0", Aliases: []string{"cohere/embed-english-v3.0"}, Dim: 1024, Metric: vec.MetricCosine},
	{Name: "embed-english-light-v3.0", Aliases: []string{"cohere/embed-english-light-v3.0"}, Dim: 384, Metric: vec.MetricCosine},
	{Name: "embed-multilingual-v3.0", Aliases: []string{"cohere/embed-multilingual-v3.0"}, Dim: 1024, Metric: vec.MetricCosine},
	{Name: "embed-multilingual-light-v3.0", Aliases: []string{"cohere/embed-multilingual-light-v3.0"}, Dim: 384, Metric: vec.MetricCosine},
	{Name: "embed-v4.0", Aliases: []string{"cohere/embed-v4.0"}, Dim: 1536, Other: []int{256, 512, 1024}, Metric: vec.MetricCosine},

	// GTE, Alibaba.
	{Name: "thenlper/gte-small", Aliases: []string{"gte-small"}, Dim: 384, Metric: vec.MetricCosine},
	{Name: "thenlper/gte-base", Aliases: []string{"gte-base"}, Dim: 768, Metric: vec.MetricCosine},
	{Name: "thenlper/gte-large", Aliases: []string{"gte-large"}, Dim: 1024, Metric: vec.MetricCosine},
	{Name: "Alibaba-NLP/gte-base-en-v1.5", Aliases: []string{"gte-base-en-v1.5"}, Dim: 768, Metric: vec.MetricCosine},
	{Name: "Alibaba-NLP/gte-large-en-v1.5", Aliases: []string{"gte-large-en-v1.5"}, Dim: 1024, Metric: vec.MetricCosine},
	{Name: "Alibaba-NLP/gte-multilingual-base", Aliases: []string{"gte-multilingual-base"}, Dim: 768, Min: 128, Metric: vec.MetricCosine},

	// Jina AI. Version 3 is told the task of a text by a parameter.
	{Name: "jinaai/jina-embeddings-v2-small-en", Aliases: []string{"jina-embeddings-v2-small-en"}, Dim: 512, Metric: vec.MetricCosine},
	{Name: "jinaai/jina-embeddings-v2-base-en", Aliases: []string{"jina-embeddings-v2-base-en"}, Dim: 768, Metric: vec.MetricCosine},
	{Name: "jinaai/jina-embeddings-v2-base-de", Aliases: []string{"jina-embeddings-v2-base-de"}, Dim: 768, Metric: vec.MetricCosine},
	{Name: "jinaai/jina-embeddings-v2-base-es", Aliases: []string{"jina-embeddings-v2-base-es"}, Dim: 768, Metric: vec.MetricCosine},
	{Name: "jinaai/jina-embeddings-v2-base-zh", Aliases: []string{"jina-embeddings-v2-base-zh"}, Dim: 768, Metric: vec.MetricCosine},
	{Name: "jinaai/jina-embeddings-v2-base-code", Aliases: []string{"jina-embeddings-v2-base-code"}, Dim: 768, Metric: vec.MetricCosine},
	{Name: "jinaai/jina-embeddings-v3", Aliases: []string{"jina-embeddings-v3"}, Dim: 1024, Other: []int{32, 64, 128, 256, 512, 768}, Metric: vec.MetricCosine},

	// Voyage AI. A call says whether its texts are queries. The first four make 1024 dimensions unless asked for others.
	{Name: "voyage-3.5", Aliases: []string{"voyage/voyage-3.5"}, Dim: 1024, Other: []int{256, 512, 2048}, Metric: vec.MetricCosine, Unit: Yes},
	{Name: "voyage-3.5-lite", Aliases: []string{"voyage/voyage-3.5-lite"}, Dim: 1024, Other: []int{256, 512, 2048}, Metric: vec.MetricCosine, Unit: Yes},
	{Name: "voyage-3-large", Aliases: []string{"voyage/voyage-3-large"}, Dim: 1024, Other: []int{256, 512, 2048}, Metric: vec.MetricCosine, Unit: Yes},
	{Name: "voyage-code-3", Aliases: []string{"voyage/voyage-code-3"}, Dim: 1024, Other: []int{256, 512, 2048}, Metric: vec.MetricCosine, Unit: Yes},
	{Name: "voyage-3", Aliases: []string{"voyage/voyage-3"}, Dim: 1024, Metric: vec.MetricCosine, Unit: Yes},
	{Name: "voyage-3-lite", Aliases: []string{"voyage/voyage-3-lite"}, Dim: 512, Metric: vec.MetricCosine, Unit: Yes},
	{Name: "voyage-finance-2", Aliases: []string{"voyage/voyage-finance-2"}, Dim: 1024, Metric: vec.MetricCosine, Unit: Yes},
	{Name: "voyage-law-2", Aliases: []string{"voyage/voyage-law-2"}, Dim: 1024, Metric: vec.MetricCosine, Unit: Yes},

	// Arctic Embed, Snowflake.
	{Name: "Snowflake/snowflake-arctic-embed-xs", Aliases: []string{"snowflake-arctic-embed-xs"}, Dim: 384, Metric: vec.MetricCosine, QueryPrefix: passageInstruction, Unit: Yes},
	{Name: "Snowflake/snowflake-arctic-embed-s", Aliases: []string{"snowflake-arctic-embed-s"}, Dim: 384, Metric: vec.MetricCosine, QueryPrefix: passageInstruction, Unit: Yes},
	{Name: "Snowflake/snowflake-arctic-embed-m", Aliases: []string{"snowflake-arctic-embed-m"}, Dim: 768, Metric: vec.MetricCosine, QueryPrefix: passageInstruction, Unit: Yes},
	{Name: "Snowflake/snowflake-arctic-embed-m-long", Aliases: []string{"snowflake-arctic-embed-m-long"}, Dim: 768, Metric: vec.MetricCosine, QueryPrefix: passageInstruction, Unit: Yes},
	{Name: "Snowflake/snowflake-arctic-embed-m-v1.5", Aliases: []string{"snowflake-arctic-embed-m-v1.5"}, Dim: 768, Other: []int{256}, Metric: vec.MetricCosine, QueryPrefix: passageInstruction, Unit: Yes},
	{Name: "Snowflake/snowflake-arctic-embed-l", Aliases: []string{"snowflake-arctic-embed-l"}, Dim: 1024, Metric: vec.MetricCosine, QueryPrefix: passageInstruction, Unit: Yes},
	{Name: "Snowflake/snowflake-arctic-embed-m-v2.0", Aliases: []string{"snowflake-arctic-embed-m-v2.0"}, Dim: 768, Other: []int{256}, Metric: vec.MetricCosine, QueryPrefix: e5Query, Unit: Yes},
	{Name: "Snowflake/snowflake-arctic-embed-l-v2.0", Aliases: []string{"snowflake-arctic-embed-l-v2.0", "snowflake-arctic-embed2"}, Dim: 1024, Other: []int{256}, Metric: vec.MetricCosine, QueryPrefix: e5Query, Unit: Yes},

	// Mixedbread. Its vectors may be cut anywhere.
	{Name: "mixedbread-ai/mxbai-embed-large-v1", Aliases: []string{"mxbai-embed-large-v1", "mxbai-embed-large"}, Dim: 1024, Min: 1, Metric: vec.MetricCosine, QueryPrefix: passageInstruction},
}
