#import "StraitWire.h"
#import "StraitErrors.h"

enum { Version = 0x8001, Call = 1, Exception = 3 };

// Of a reply. The deepest one, a listing, has four levels.
enum { MaxDepth = 16 };
// A page of a listing with 10,000 entries has 120,000 values. A value takes about a hundred bytes of memory.
enum { MaxValues = 1 << 20 };

@implementation StraitValue

- (void)dealloc {
    [object release];
    [super dealloc];
}

@end

// ------------------------------------------------------------------------------------------------- values to send

static StraitValue *Value(StraitType type, int64_t number, id object) {
    StraitValue *value = [[[StraitValue alloc] init] autorelease];
    value->type = type;
    value->number = number;
    value->object = [object retain];
    return value;
}

StraitValue *StraitNumber(StraitType type, int64_t number) { return Value(type, number, nil); }

StraitValue *StraitOptional(StraitType type, NSNumber *number) {
    return number ? StraitNumber(type, [number longLongValue]) : nil;
}

StraitValue *StraitFlag(BOOL flag) { return StraitNumber(StraitBool, flag ? 1 : 0); }

StraitValue *StraitData(NSData *data) { return data ? Value(StraitBytes, 0, data) : nil; }

StraitValue *StraitText(NSString *text) { return StraitData([text dataUsingEncoding:NSUTF8StringEncoding]); }

StraitValue *StraitTexts(NSArray *texts) {
    NSMutableArray *values = [NSMutableArray array];
    for (NSString *text in texts)
        [values addObject:StraitText(text)];
    return Value(StraitList, 0, values);
}

StraitValue *StraitNested(StraitMessage *message) { return message ? Value(StraitStruct, 0, message) : nil; }

// ------------------------------------------------------------------------------------------------------- messages

static NSString *Text(NSData *data) {
    if (!data)
        return nil;
    NSString *text = [[NSString alloc] initWithData:data encoding:NSUTF8StringEncoding];
    if (!text) // No gateway sends such a text. Something readable is better than nothing.
        text = [[NSString alloc] initWithData:data encoding:NSISOLatin1StringEncoding];
    return [text autorelease];
}

@implementation StraitMessage

- (id)init {
    if ((self = [super init]))
        _fields = [[NSMutableDictionary alloc] init];
    return self;
}

- (void)dealloc {
    [_fields release];
    [super dealloc];
}

+ (StraitMessage *)messageWithFields:(int)first, ... {
    StraitMessage *message = [[[StraitMessage alloc] init] autorelease];
    va_list rest;
    va_start(rest, first);
    for (int field = first; field; field = va_arg(rest, int))
        [message setField:field to:va_arg(rest, StraitValue *)];
    va_end(rest);
    return message;
}

- (void)setField:(int)field to:(StraitValue *)value {
    NSNumber *number = [NSNumber numberWithInt:field];
    if (value)
        [_fields setObject:value forKey:number];
    else
        [_fields removeObjectForKey:number];
}

- (StraitValue *)valueIn:(int)field {
    return [_fields objectForKey:[NSNumber numberWithInt:field]];
}

- (BOOL)hasField:(int)field {
    return [self valueIn:field] != nil;
}

- (NSArray *)fields {
    return [[_fields allKeys] sortedArrayUsingSelector:@selector(compare:)];
}

- (id)objectIn:(int)field ofType:(StraitType)type {
    StraitValue *value = [self valueIn:field];
    return value && value->type == type ? value->object : nil;
}

- (int64_t)numberIn:(int)field {
    StraitValue *value = [self valueIn:field];
    return value ? value->number : 0;
}

- (NSData *)dataIn:(int)field {
    return [self objectIn:field ofType:StraitBytes];
}

- (NSString *)textIn:(int)field {
    return Text([self dataIn:field]);
}

- (StraitMessage *)messageIn:(int)field {
    return [self objectIn:field ofType:StraitStruct];
}

- (NSArray *)messagesIn:(int)field {
    NSMutableArray *messages = [NSMutableArray array];
    for (StraitValue *item in [self objectIn:field ofType:StraitList])
        if (item->type == StraitStruct)
            [messages addObject:item->object];
    return messages;
}

- (NSArray *)textsIn:(int)field {
    NSMutableArray *texts = [NSMutableArray array];
    for (StraitValue *item in [self objectIn:field ofType:StraitList])
        if (item->type == StraitBytes)
            [texts addObject:Text(item->object)];
    return texts;
}

@end

// ------------------------------------------------------------------------------------------------------- encoding

static void AppendNumber(NSMutableData *target, int64_t number, unsigned size) {
    uint64_t swapped = NSSwapHostLongLongToBig(number);
    [target appendBytes:(char *)&swapped + 8 - size length:size];
}

static void AppendMessage(NSMutableData *target, StraitMessage *message);

static void AppendValue(NSMutableData *target, StraitValue *value) {
    switch (value->type) {
    case StraitBool:
    case StraitByte:
        AppendNumber(target, value->number, 1);
        break;
    case StraitI16:
        AppendNumber(target, value->number, 2);
        break;
    case StraitI32:
        AppendNumber(target, value->number, 4);
        break;
    case StraitI64:
        AppendNumber(target, value->number, 8);
        break;
    case StraitBytes:
        AppendNumber(target, [value->object length], 4);
        [target appendData:value->object];
        break;
    case StraitStruct:
        AppendMessage(target, value->object);
        break;
    case StraitList: // of strings: no request has others
        AppendNumber(target, StraitBytes, 1);
        AppendNumber(target, [value->object count], 4);
        for (StraitValue *item in value->object)
            AppendValue(target, item);
        break;
    default:
        [NSException raise:NSInvalidArgumentException format:@"a value of type %d to send", value->type];
    }
}

static void AppendMessage(NSMutableData *target, StraitMessage *message) {
    for (NSNumber *number in [message fields]) {
        StraitValue *value = [message valueIn:[number intValue]];
        AppendNumber(target, value->type, 1);
        AppendNumber(target, [number intValue], 2);
        AppendValue(target, value);
    }
    AppendNumber(target, StraitStop, 1);
}

NSData *StraitEncodedCall(NSString *method, int32_t number, StraitMessage *arguments) {
    NSMutableData *frame = [NSMutableData dataWithLength:4];
    AppendNumber(frame, (int64_t)Version << 16 | Call, 4);
    AppendValue(frame, StraitText(method));
    AppendNumber(frame, number, 4);
    AppendMessage(frame, arguments);
    uint32_t size = NSSwapHostIntToBig([frame length] - 4);
    [frame replaceBytesInRange:NSMakeRange(0, 4) withBytes:&size];
    return frame;
}

// ------------------------------------------------------------------------------------------------------- decoding

/** Reads within a frame. The first fault stays in `wrong`; everything read after it is 0 or nil. */
typedef struct {
    const uint8_t *bytes;
    NSUInteger length, position, values;
    NSString *wrong;
} Reader;

static const uint8_t *Take(Reader *reader, NSUInteger size) {
    if (!reader->wrong && size > reader->length - reader->position)
        reader->wrong = @"a reply with a wrong length";
    if (reader->wrong)
        return NULL;
    reader->position += size;
    return reader->bytes + reader->position - size;
}

static int64_t TakeNumber(Reader *reader, unsigned size) {
    const uint8_t *bytes = Take(reader, size);
    if (!bytes)
        return 0;
    int64_t number = (int8_t)bytes[0];
    for (unsigned index = 1; index < size; index++)
        number = (int64_t)((uint64_t)number << 8 | bytes[index]);
    return number;
}

static NSData *TakeData(Reader *reader) {
    uint32_t size = TakeNumber(reader, 4); // a negative one is above any frame's
    const uint8_t *bytes = Take(reader, size);
    return bytes ? [NSData dataWithBytes:bytes length:size] : nil;
}

static StraitMessage *TakeMessage(Reader *reader, int depth);
static StraitValue *TakeValue(Reader *reader, StraitType type, int depth);

/** Of a map, the keys and the values become items: no message has one, and a newer gateway's is read over. */
static StraitValue *TakeItems(Reader *reader, StraitType type, int depth) {
    StraitType first = TakeNumber(reader, 1), second = type == StraitMap ? TakeNumber(reader, 1) : first;
    int64_t count = TakeNumber(reader, 4) * (type == StraitMap ? 2 : 1);
    if (count < 0)
        reader->wrong = @"a reply with a wrong length";
    NSMutableArray *items = [NSMutableArray array]; // grows with the bytes: an item takes one at least
    for (int64_t index = 0; index < count && !reader->wrong; index++) {
        StraitValue *item = TakeValue(reader, index % 2 ? second : first, depth + 1);
        if (item)
            [items addObject:item];
    }
    return Value(type, 0, items);
}

static StraitValue *TakeValue(Reader *reader, StraitType type, int depth) {
    if (depth > MaxDepth || ++reader->values > MaxValues)
        reader->wrong = @"a reply that is too deep, or has too many values";
    if (reader->wrong)
        return nil;
    switch (type) {
    case StraitBool:
    case StraitByte:
        return Value(type, TakeNumber(reader, 1), nil);
    case StraitI16:
        return Value(type, TakeNumber(reader, 2), nil);
    case StraitI32:
        return Value(type, TakeNumber(reader, 4), nil);
    case StraitDouble:
    case StraitI64:
        return Value(type, TakeNumber(reader, 8), nil);
    case StraitBytes:
        return Value(type, 0, TakeData(reader));
    case StraitStruct:
        return Value(type, 0, TakeMessage(reader, depth + 1));
    case StraitMap:
    case StraitSet:
    case StraitList:
        return TakeItems(reader, type, depth);
    default:
        reader->wrong = @"a reply with a field of an unknown type";
        return nil;
    }
}

static StraitMessage *TakeMessage(Reader *reader, int depth) {
    StraitMessage *message = [[[StraitMessage alloc] init] autorelease];
    for (StraitType type = TakeNumber(reader, 1); type != StraitStop; type = TakeNumber(reader, 1)) {
        int field = TakeNumber(reader, 2);
        [message setField:field to:TakeValue(reader, type, depth)];
    }
    return message;
}

NSInteger StraitFrameSize(NSData *head) {
    Reader reader = {[head bytes], [head length], 0, 0, nil};
    int64_t size = TakeNumber(&reader, 4);
    return !reader.wrong && size >= 0 && size <= StraitMaxFrame ? size : -1;
}

StraitMessage *StraitDecodedReply(NSData *frame, NSString *method, int32_t number, NSString **why) {
    Reader reader = {[frame bytes], [frame length], 0, 0, nil};
    int64_t version = TakeNumber(&reader, 2), type = TakeNumber(&reader, 2);
    NSString *name = Text(TakeData(&reader));
    int64_t replied = TakeNumber(&reader, 4);
    StraitMessage *result = TakeMessage(&reader, 0);
    if (!reader.wrong && (version & 0xffff) != Version)
        reader.wrong = @"no reply of Thrift's";
    if (!reader.wrong && (replied != number || (type != Exception && ![name isEqualToString:method])))
        reader.wrong = @"a reply to another request";
    if (!reader.wrong && reader.position != reader.length)
        reader.wrong = @"a reply that doesn't end with its frame";
    if (reader.wrong) {
        *why = reader.wrong;
        return nil;
    }
    if (type != Exception)
        return result;
    NSString *text = [NSString stringWithFormat:@"the gateway refuses %@: %@", method, [result textIn:1]];
    StraitMessage *refusal =
        [StraitMessage messageWithFields:1, StraitNumber(StraitI32, StraitInternalError), 3, StraitText(text), 0];
    return [StraitMessage messageWithFields:1, StraitNested(refusal), 0];
}
