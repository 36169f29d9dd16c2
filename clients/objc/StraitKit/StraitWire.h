// Thrift's binary protocol in frames, with messages by their fields' numbers, those of idl/dfs.thrift. Not installed.
#import <Foundation/Foundation.h>

/** Types of values, as Thrift numbers them. */
typedef enum {
    StraitStop = 0,
    StraitBool = 2,
    StraitByte = 3,
    StraitDouble = 4,
    StraitI16 = 6,
    StraitI32 = 8,
    StraitI64 = 10,
    StraitBytes = 11,
    StraitStruct = 12,
    StraitMap = 13,
    StraitSet = 14,
    StraitList = 15
} StraitType;

/** A longer reply breaks the connection, before memory is allocated for it. */
enum { StraitMaxFrame = 16 << 20 };

/** A value of a field: a number, or an object: NSData, a message, or an NSArray of values. */
@interface StraitValue : NSObject {
  @public
    StraitType type;
    int64_t number;
    id object;
}
@end

// Values to send. Of nil they make nil, and a nil isn't sent.
StraitValue *StraitNumber(StraitType type, int64_t number);
StraitValue *StraitOptional(StraitType type, NSNumber *number);
StraitValue *StraitFlag(BOOL flag);
StraitValue *StraitData(NSData *data);
StraitValue *StraitText(NSString *text);
StraitValue *StraitTexts(NSArray *texts);

@class StraitMessage;
StraitValue *StraitNested(StraitMessage *message);

@interface StraitMessage : NSObject {
  @private
    NSMutableDictionary *_fields;
}

/** Numbers of fields, each followed by its value; 0 ends them. */
+ (StraitMessage *)messageWithFields:(int)first, ...;

- (void)setField:(int)field to:(StraitValue *)value;
- (BOOL)hasField:(int)field;

/** The numbers of the fields that are present, in order. */
- (NSArray *)fields;

// A field of another type than expected counts as absent, as in Thrift's own decoders: 0, nil, or no items.
- (int64_t)numberIn:(int)field;
- (NSData *)dataIn:(int)field;
- (NSString *)textIn:(int)field;
- (StraitMessage *)messageIn:(int)field;
- (NSArray *)messagesIn:(int)field;
- (NSArray *)textsIn:(int)field;

@end

/** A frame with a call: the arguments are a message, too. */
NSData *StraitEncodedCall(NSString *method, int32_t number, StraitMessage *arguments);

/** The size of a frame, from its first four bytes; -1 if it is above the limit. */
NSInteger StraitFrameSize(NSData *head);

/**
 * The result's fields: 0 what the method returns, 1 its error. A refusal of the call itself becomes an error of the
 * kind Internal. Of bytes that are no reply to this call it makes nil, and says why.
 */
StraitMessage *StraitDecodedReply(NSData *frame, NSString *method, int32_t number, NSString **why);
