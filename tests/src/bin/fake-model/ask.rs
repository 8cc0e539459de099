//! What a client asks, whichever way it says it.

use serde_json::Value;

/// The forms that are understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// OpenAI's chat completions.
    Chat,
    /// OpenAI's responses.
    Responses,
    /// Anthropic's messages.
    Messages,
    /// Gemini's contents.
    Gemini,
    /// Ollama's own chat.
    Ollama,
}

/// Who said something, or what it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The user.
    User,
    /// The model.
    Assistant,
    /// The model's call of a tool.
    Call,
    /// What a tool gave back.
    Result,
}

/// A tool that the client offers.
#[derive(Debug)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// What it takes.
    pub schema: Value,
    /// Whether it takes plain text instead.
    pub free: bool,
}

/// One request.
#[derive(Debug)]
pub struct Ask {
    /// How it was said, and how it is answered.
    pub form: Form,
    /// The model it wants.
    pub model: String,
    /// Whether it wants the answer piece by piece.
    pub stream: bool,
    /// What the client says besides the conversation.
    pub system: String,
    /// The conversation.
    pub items: Vec<(Kind, String)>,
    /// What may be called.
    pub tools: Vec<Tool>,
    /// The form that the answer must have, if it must be JSON.
    pub json: Option<Value>,
}

impl Ask {
    /// Reads a request by its path.
    pub fn read(path: &str, body: &Value) -> Option<Self> {
        let gemini = path
            .rsplit_once("/models/")
            .and_then(|(_, rest)| rest.split_once(':'));
        let (form, model, stream) = match gemini {
            Some((model, "generateContent")) => (Form::Gemini, model, false),
            Some((model, "streamGenerateContent")) => (Form::Gemini, model, true),
            _ => {
                let form = match path {
                    path if path.ends_with("/chat/completions") => Form::Chat,
                    path if path.ends_with("/api/chat") => Form::Ollama,
                    path if path.ends_with("/responses") => Form::Responses,
                    path if path.ends_with("/messages") => Form::Messages,
                    _ => return None,
                };
                let model = body["model"].as_str().unwrap_or("fake-model");
                (form, model, body["stream"] == true)
            }
        };
        let mut ask = Ask {
            form,
            model: model.to_owned(),
            stream,
            system: String::new(),
            items: Vec::new(),
            tools: Vec::new(),
            json: None,
        };
        match form {
            Form::Chat | Form::Ollama => ask.read_chat(body),
            Form::Responses => ask.read_responses(body),
            Form::Messages => ask.read_messages(body),
            Form::Gemini => ask.read_gemini(body),
        }
        Some(ask)
    }

    fn add(&mut self, role: &str, text: String) {
        match role {
            "system" | "developer" => {
                self.system.push_str(&text);
                self.system.push('\n');
            }
            "tool" => self.items.push((Kind::Result, text)),
            "user" => self.items.push((Kind::User, text)),
            _ if text.is_empty() => {}
            _ => self.items.push((Kind::Assistant, text)),
        }
    }

    fn offer(&mut self, tool: &Value, schema: &Value) {
        if let Some(name) = tool["name"].as_str() {
            self.tools.push(Tool {
                name: name.to_owned(),
                schema: schema.clone(),
                free: tool["type"] == "custom",
            });
        }
    }

    fn read_chat(&mut self, body: &Value) {
        for message in list(&body["messages"]) {
            let role = message["role"].as_str().unwrap_or_default();
            self.add(role, text(&message["content"]));
            for call in list(&message["tool_calls"]) {
                self.items.push((Kind::Call, call.to_string()));
            }
        }
        for tool in list(&body["tools"]) {
            let tool = tool.get("function").unwrap_or(tool);
            self.offer(tool, &tool["parameters"]);
        }
        if body["response_format"]["type"] == "json_schema" {
            self.json = Some(body["response_format"]["json_schema"]["schema"].clone());
        }
    }

    fn read_responses(&mut self, body: &Value) {
        self.system = text(&body["instructions"]);
        if let Some(words) = body["input"].as_str() {
            self.add("user", words.to_owned());
        }
        for item in list(&body["input"]) {
            let kind = item["type"].as_str().unwrap_or("message");
            match kind {
                "function_call" | "custom_tool_call" | "local_shell_call" => {
                    self.items.push((Kind::Call, item.to_string()));
                }
                kind if kind.ends_with("_call_output") => {
                    self.items.push((Kind::Result, text(&item["output"])));
                }
                // Some clients offer more on the way.
                "additional_tools" => self.read_tools(&item["tools"]),
                _ => {
                    if let Some(role) = item["role"].as_str() {
                        self.add(role, text(&item["content"]));
                    }
                }
            }
        }
        self.read_tools(&body["tools"]);
        if body["text"]["format"]["type"] == "json_schema" {
            self.json = Some(body["text"]["format"]["schema"].clone());
        }
    }

    fn read_tools(&mut self, tools: &Value) {
        for tool in list(tools) {
            if tool["type"] == "namespace" {
                self.read_tools(&tool["tools"])
            } else {
                self.offer(tool, &tool["parameters"])
            }
        }
    }

    fn read_messages(&mut self, body: &Value) {
        self.system = text(&body["system"]);
        for message in list(&body["messages"]) {
            let role = message["role"].as_str().unwrap_or_default();
            if let Some(words) = message["content"].as_str() {
                self.add(role, words.to_owned());
            }
            for block in list(&message["content"]) {
                match block["type"].as_str().unwrap_or_default() {
                    "tool_use" => self.items.push((Kind::Call, block.to_string())),
                    "tool_result" => self.items.push((Kind::Result, text(&block["content"]))),
                    "text" => self.add(role, text(&block["text"])),
                    _ => {}
                }
            }
        }
        for tool in list(&body["tools"]) {
            self.offer(tool, &tool["input_schema"]);
        }
        for format in [&body["output_format"], &body["output_config"]["format"]] {
            if format["type"] == "json_schema" {
                self.json = Some(format["schema"].clone());
            }
        }
    }

    fn read_gemini(&mut self, body: &Value) {
        self.system = text(&body["systemInstruction"]);
        for content in list(&body["contents"]) {
            let role = if content["role"] == "user" {
                "user"
            } else {
                "model"
            };
            for part in list(&content["parts"]) {
                if let Some(call) = part.get("functionCall") {
                    self.items.push((Kind::Call, call.to_string()));
                } else if let Some(result) = part.get("functionResponse") {
                    self.items
                        .push((Kind::Result, result["response"].to_string()));
                } else if part["thought"] != true {
                    let words = text(&part["text"]);
                    if !words.is_empty() {
                        self.add(role, words);
                    }
                }
            }
        }
        for tools in list(&body["tools"]) {
            for tool in list(&tools["functionDeclarations"]) {
                let schema = tool
                    .get("parametersJsonSchema")
                    .unwrap_or(&tool["parameters"]);
                self.offer(tool, schema);
            }
        }
        let wanted = &body["generationConfig"];
        if wanted["responseMimeType"] == "application/json" {
            let schema = wanted.get("responseJsonSchema");
            self.json = Some(schema.unwrap_or(&wanted["responseSchema"]).clone());
        }
    }
}

/// Returns the items of a list, none when it is none.
pub fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Returns the text of a content, however deep it is wrapped.
fn text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let texts: Vec<String> = items
                .iter()
                .map(text)
                .filter(|text| !text.is_empty())
                .collect();
            texts.join("\n")
        }
        Value::Object(fields) => ["text", "content", "parts", "output"]
            .iter()
            .find_map(|key| fields.get(*key))
            .map(text)
            .unwrap_or_default(),
        _ => String::new(),
    }
}
